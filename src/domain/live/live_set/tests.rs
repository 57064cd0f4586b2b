mod odd;

use super::*;
use crate::domain::live::pod::ContainerView;
use crate::domain::model::Artifact;

/// A digest made of one byte.
fn image_id(byte: u8) -> String {
    format!("sha256:{}", format!("{byte:02x}").repeat(32))
}

fn container(name: &str, image_id: &str) -> ContainerView {
    ContainerView { name: name.into(), image: "app".into(), image_id: image_id.into(), ..Default::default() }
}

/// A pod that runs one image; its uid is that of this name and time.
fn pod(namespace: &str, name: &str, created_at: i64) -> PodView {
    PodView {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{namespace}/{name}#{created_at}"),
        created_at: Some(created_at),
        containers: vec![container("app", &image_id(1))],
        ..Default::default()
    }
}

fn ended(pod: PodView) -> PodView {
    PodView { phase: Phase::Ended, ..pod }
}

fn everything() -> Roster {
    Roster::new(vec![Selection::default()], Counting::All)
}

/// A set whose first list is complete and held these.
fn listed(pods: impl IntoIterator<Item = PodView>) -> Roster {
    let mut roster = everything();
    roster.begin(None);
    for pod in pods {
        roster.apply(None, pod);
    }
    roster.complete(None, |gone| panic!("{gone:?}"));
    roster
}

fn only(namespace: &str) -> Selection {
    Selection::new([namespace.parse().unwrap()].into(), vec![], [].into(), vec![]).unwrap()
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.iter().map(|a| format!("{}/{}", a.namespace, a.pod_name)).collect()
}

/// The name, time and digests of what departed.
fn shown(departure: &Departure) -> String {
    let Artifact { namespace, pod_name, created_at, workload } = &departure.artifact;
    let digests: Vec<_> = workload.digests.iter().map(|(_, digest)| digest.bytes()[0].to_string()).collect();
    format!("{namespace}/{pod_name}#{created_at}: {}", digests.join(" "))
}

#[test]
fn artifacts_come_in_the_order_of_namespace_slash_name() {
    let roster = listed([pod("b", "x", 1), pod("a", "y", 1), pod("a-b", "x", 1), pod("a", "x", 1)]);
    assert_eq!(names(&roster.snapshot(0, vec![])), ["a-b/x", "a/x", "a/y", "b/x"]);
}

#[test]
fn an_environment_has_the_namespaces_that_it_selects_and_their_counts() {
    let except_b = Selection::new([].into(), vec![], ["b".parse().unwrap()].into(), vec![]).unwrap();
    let mut roster = Roster::new(vec![except_b, only("b"), only("d")], Counting::All);
    let empty = PodView { containers: vec![], ..pod("b", "new", 1) };
    for pod in [pod("a", "x", 1), pod("b", "x", 1), pod("b", "y", 1), empty, pod("c", "x", 1)] {
        roster.apply(None, pod);
    }
    assert_eq!(names(&roster.snapshot(0, vec![])), ["a/x", "c/x"]);
    let b = roster.snapshot(1, vec![]);
    assert_eq!((names(&b), b.len()), (vec!["b/x".to_owned(), "b/y".to_owned()], 2));
    assert_eq!((b.tally.pods, &b.tally.skipped_pods), (3, &[(PodSkip::NotStarted, 1)].into()));
    assert_eq!([0, 1, 2].map(|n| roster.has_seen_any(n)), [true, true, false]);
    assert!(roster.has_seen("b") && !roster.has_seen("d"));
}

#[test]
fn what_no_environment_selects_is_not_kept() {
    let mut roster = Roster::new(vec![only("a")], Counting::All);
    assert_eq!(roster.apply(None, ended(pod("b", "x", 1))), Applied::default());
    assert_eq!(roster.unreadable(None, Some(("b", "y"))), Unread::NotTaken);
    assert_eq!((roster.namespaces.len(), roster.templates.len()), (0, 0));
}

#[test]
fn a_list_that_fails_half_way_removes_nothing_and_a_complete_one_what_it_did_not_name() {
    let mut roster = listed([pod("a", "x", 1), pod("a", "y", 1), pod("b", "z", 1)]);
    roster.begin(None);
    roster.apply(None, pod("a", "x", 1));
    roster.apply(None, pod("b", "z", 2));
    assert_eq!(names(&roster.snapshot(0, vec![])), ["a/x", "a/y", "b/z"]);
    roster.begin(None);
    roster.apply(None, pod("a", "x", 1));
    roster.apply(None, pod("a", "new", 1));
    let mut gone = Vec::new();
    let swept = roster.complete(None, |departure| gone.push(shown(&departure)));
    assert_eq!(
        (names(&roster.snapshot(0, vec![])), gone),
        (vec!["a/new".into(), "a/x".into()], vec!["a/y#1: 1".into(), "b/z#2: 1".into()])
    );
    assert_eq!(swept, Swept { came: 1, differed: 1, went: 2 });
}

#[test]
fn a_list_that_only_confirms_what_is_there_finds_no_difference_and_moves_no_revision() {
    let pods = || (0..1_000).map(|n| pod(["a", "b"][n % 2], &format!("x-{n}"), 1));
    let mut roster = listed(pods());
    let revision = roster.revision(0);
    roster.begin(None);
    for pod in pods() {
        assert_eq!(roster.apply(None, pod), Applied::default());
    }
    assert_eq!(roster.complete(None, |gone| panic!("{gone:?}")), Swept::default());
    assert_eq!(roster.revision(0), revision);
}

#[test]
fn the_list_of_one_namespace_touches_no_other() {
    let (a, b): (NamespaceName, NamespaceName) = ("a".parse().unwrap(), "b".parse().unwrap());
    let mut roster = everything();
    for (of, name) in [(&a, "x"), (&b, "y")] {
        assert!(!roster.is_listed(Some(of)));
        roster.begin(Some(of));
        roster.apply(Some(of), pod(of.as_str(), name, 1));
        roster.complete(Some(of), |gone| panic!("{gone:?}"));
        assert!(roster.is_listed(Some(of)));
    }
    let of_b = roster.namespace_revision("b");
    roster.begin(Some(&a));
    assert_eq!(roster.complete(Some(&a), |_| ()).went, 1);
    assert_eq!(names(&roster.snapshot(0, vec![])), ["b/y"]);
    assert_eq!((roster.namespace_revision("a"), roster.namespace_revision("b")), (None, of_b));
}

#[test]
fn a_pod_that_is_replaced_by_one_of_its_name_departs_and_the_list_says_that_it_named_both() {
    let mut roster = everything();
    roster.begin(None);
    assert!(!roster.apply(None, pod("a", "x", 1)).is_repeated);
    let since = roster.revision(0);
    let applied = roster.apply(None, pod("a", "x", 2));
    assert!(applied.is_repeated);
    assert_eq!(applied.departures.iter().map(shown).collect::<Vec<_>>(), ["a/x#1: 1"]);
    assert_eq!(applied.departures[0].since, since);
    assert_eq!(roster.snapshot(0, vec![]).iter().map(|a| a.created_at).collect::<Vec<_>>(), [2]);
    roster.complete(None, |gone| panic!("{gone:?}"));
    assert!(!roster.apply(None, pod("a", "x", 2)).is_repeated, "a watch repeats itself by right");
}

#[test]
fn two_pods_can_depart_at_once() {
    let mut roster = listed([pod("a", "x", 1)]);
    let departures = roster.apply(None, ended(pod("a", "x", 2))).departures;
    assert_eq!(departures.iter().map(shown).collect::<Vec<_>>(), ["a/x#1: 1", "a/x#2: 1"]);
    assert!(departures[1].since > roster.revision(0), "no report can have held it");
}

#[test]
fn a_pod_that_ends_departs_once_and_a_pod_that_was_first_seen_ended_too() {
    let mut roster = listed([pod("a", "old", 1), ended(pod("a", "done", 1))]);
    let since = roster.revision(0);
    for (pod, departs) in [
        (ended(pod("a", "old", 1)), Some("a/old#1: 1")),
        (ended(pod("a", "old", 1)), None),
        (ended(pod("a", "done", 1)), None),
        (ended(pod("a", "brief", 1)), Some("a/brief#1: 1")),
        (ended(pod("a", "brief", 1)), None),
        (ended(PodView { containers: vec![], ..pod("a", "never", 1) }), None),
    ] {
        let departures = roster.apply(None, pod).departures;
        assert_eq!(departures.iter().map(shown).collect::<Vec<_>>(), Vec::from_iter(departs));
        assert!(departures.iter().all(|d| d.artifact.pod_name.as_ref() != "old" || d.since == since));
    }
    assert_eq!(roster.tally(0).skipped_pods, [(PodSkip::Ended, 4)].into());
    for gone in ["old", "done", "brief", "never"] {
        assert_eq!(roster.remove(None, &pod("a", gone, 1)), None);
    }
    assert_eq!((roster.tally(0), roster.namespaces.len()), (Tally::default(), 0));
}

#[test]
fn a_pod_that_runs_and_ends_between_two_events_departs() {
    let waiting = PodView { containers: vec![container("app", "")], ..pod("a", "x", 1) };
    let mut roster = listed([waiting.clone()]);
    let departures = roster.apply(None, ended(pod("a", "x", 1))).departures;
    assert_eq!(departures.iter().map(shown).collect::<Vec<_>>(), ["a/x#1: 1"]);
    assert!(departures[0].since > roster.revision(0));
    let mut roster = listed([waiting]);
    assert_eq!(roster.remove(None, &pod("a", "x", 1)).as_ref().map(shown), Some("a/x#1: 1".into()));
}

#[test]
fn a_pod_departs_with_all_that_it_ran_even_what_no_report_held() {
    let more = PodView {
        containers: vec![container("app", &image_id(1)), container("debug", &image_id(2))],
        ..pod("a", "x", 1)
    };
    for end in [Roster::apply_end, |roster: &mut Roster, pod: PodView| roster.remove(None, &pod)] {
        let mut roster = listed([pod("a", "x", 1)]);
        let departure = end(&mut roster, more.clone()).unwrap();
        assert_eq!(shown(&departure), "a/x#1: 1 2");
        assert!(departure.since > roster.revision(0));
        // And where the last event has lost what was known, with that.
        let mut roster = listed([more.clone()]);
        let since = roster.revision(0);
        let forgotten = PodView { containers: vec![container("app", "")], ..pod("a", "x", 1) };
        let departure = end(&mut roster, forgotten).unwrap();
        assert_eq!((shown(&departure), departure.since), ("a/x#1: 1 2".into(), since));
    }
}

impl Roster {
    fn apply_end(&mut self, pod: PodView) -> Option<Departure> {
        self.apply(None, ended(pod)).departures.pop()
    }
}

#[test]
fn a_node_that_restarts_takes_no_digest_from_a_pod() {
    let both = vec![container("app", &image_id(1)), container("side", &image_id(2))];
    let mut roster = listed([PodView { containers: both, ..pod("a", "x", 1) }]);
    let (revision, tally) = (roster.revision(0), roster.tally(0));
    for containers in [vec![container("app", ""), container("side", "")], vec![container("side", "")], vec![]]
    {
        roster.apply(None, PodView { containers, ..pod("a", "x", 1) });
        assert_eq!((roster.revision(0), &roster.tally(0)), (revision, &tally));
    }
    roster.apply(None, PodView { containers: vec![container("app", &image_id(3))], ..pod("a", "x", 1) });
    assert!(roster.revision(0) > revision);
    let digests = |roster: &Roster| -> Vec<u8> {
        let snapshot = roster.snapshot(0, vec![]);
        snapshot.iter().flat_map(|a| a.workload.digests.iter().map(|(_, d)| d.bytes()[0])).collect()
    };
    assert_eq!(digests(&roster), [2, 3]);
    // Another pod of that name has not run any of it.
    roster.apply(None, PodView { containers: vec![container("side", "")], ..pod("a", "x", 2) });
    assert_eq!(digests(&roster), [0; 0]);
}

#[test]
fn what_cannot_be_read_is_counted_and_never_vanishes_for_that() {
    let mut roster = listed([pod("a", "x", 1)]);
    roster.begin(None);
    assert_eq!(roster.unreadable(None, Some(("a", "x"))), Unread::Kept);
    assert_eq!(roster.unreadable(None, Some(("a", "y"))), Unread::LeftOut);
    assert_eq!(roster.unreadable(None, Some(("a", ""))), Unread::LeftOut);
    assert_eq!(roster.unreadable(None, None), Unread::Lost);
    assert_eq!(roster.lost(), 0, "what a list that is not complete found says nothing yet");
    assert_eq!(roster.complete(None, |gone| panic!("{gone:?}")), Swept { came: 1, ..Swept::default() });
    assert_eq!((roster.tally(0).pods, roster.lost()), (3, 1));
    assert_eq!(roster.tally(0).skipped_pods, [(PodSkip::Unreadable, 2)].into());
    roster.begin(None);
    roster.apply(None, pod("a", "x", 1));
    roster.apply(None, pod("a", "y", 1));
    roster.complete(None, |gone| panic!("{gone:?}"));
    assert_eq!((roster.tally(0).artifacts, roster.tally(0).pods, roster.lost()), (2, 2, 0));
}

#[test]
fn a_pod_of_which_only_the_name_is_known_when_it_is_deleted_departs_as_it_was_last() {
    let mut roster = listed([pod("a", "x", 1)]);
    assert_eq!(roster.remove_named(None, "a", "never"), None);
    assert_eq!(roster.remove_named(None, "elsewhere", "x"), None);
    let departure = roster.remove_named(None, "a", "x").unwrap();
    assert_eq!(
        shown(&departure),
        shown(&listed([pod("a", "x", 1)]).remove(None, &pod("a", "x", 1)).unwrap())
    );
    assert!(names(&roster.snapshot(0, vec![])).is_empty());
}

#[test]
fn a_pod_that_was_seen_stays_seen() {
    let mut roster = Roster::new(vec![only("a")], Counting::All);
    roster.apply(None, ended(pod("a", "x", 1)));
    roster.remove(None, &pod("a", "x", 1));
    assert!(roster.has_seen("a") && roster.has_seen_any(0));
}

#[test]
fn witnessed_pods_stand_where_they_would_have_stood() {
    let witnessed = [pod("a", "w", 1), pod("b", "x", 1), pod("c", "x", 0)].map(|pod| {
        let mut roster = listed([pod.clone()]);
        roster.remove(None, &pod).unwrap().artifact
    });
    let roster = listed([pod("a", "x", 1), pod("b", "x", 2), ended(pod("b", "y", 1)), pod("b", "z", 1)]);
    let snapshot = roster.snapshot(0, witnessed.into_iter().rev().collect());
    let all: Vec<_> =
        snapshot.iter().map(|a| format!("{}/{}#{}", a.namespace, a.pod_name, a.created_at)).collect();
    assert_eq!(all, ["a/w#1", "a/x#1", "b/x#1", "b/x#2", "b/z#1", "c/x#0"]);
    assert_eq!(snapshot.len(), 6);
    let mut walk = snapshot.iter();
    for n in 0..=6 {
        assert_eq!(snapshot.walk_from(walk.place()).count(), 6 - n);
        walk.next();
    }
}

#[test]
fn a_witnessed_pod_that_is_back_is_said_once() {
    let mut roster = listed([pod("a", "x", 1), pod("a", "y", 1)]);
    let gone = ["x", "y"].map(|name| roster.remove(None, &pod("a", name, 1)).unwrap().artifact);
    roster.apply(None, pod("a", "x", 1));
    // Another one of its name.
    roster.apply(None, pod("a", "y", 2));
    // And it may leave again, so that it left twice.
    let gone = [gone.to_vec(), gone.to_vec()].concat();
    let snapshot = roster.snapshot(0, gone);
    let all: Vec<_> = snapshot.iter().map(|a| format!("{}#{}", a.pod_name, a.created_at)).collect();
    assert_eq!(all, ["x#1", "y#1", "y#2"]);
    assert_eq!(snapshot.len(), 3);
}

#[test]
fn a_list_in_order_fills_the_blocks_and_pods_of_one_owner_share_what_they_have_in_common() {
    let mut roster = listed((0..1_000).map(|n| pod("a", &format!("web-{n:03}"), n)));
    assert_eq!(roster.namespaces[0].pods.lengths(), [256, 256, 256, 232]);
    assert_eq!(roster.templates.len(), 1);
    // Blocks that shrink are merged.
    for n in (0..1_000).filter(|n| n % 10 != 0) {
        roster.remove(None, &pod("a", &format!("web-{n:03}"), n)).unwrap();
    }
    assert!(roster.namespaces[0].pods.lengths().len() <= 2, "{:?}", roster.namespaces[0].pods.lengths());
    assert_eq!(roster.snapshot(0, vec![]).len(), 100);
}

#[test]
fn what_a_pod_ran_for_a_moment_departs_from_it_and_what_it_goes_on_to_run_does_not() {
    let runs = |images: &[char]| {
        let mut pod = pod("a", "x", 1);
        let container = pod.containers[0].clone();
        let with = |digit: &char| {
            let image_id = format!("r.io/i@sha256:{}", digit.to_string().repeat(64));
            crate::domain::live::pod::ContainerView { image_id, ..container.clone() }
        };
        pod.containers = images.iter().map(with).collect();
        for (n, container) in pod.containers.iter_mut().enumerate() {
            container.name = format!("c{n}");
        }
        pod
    };
    let mut roster = listed([runs(&['a'])]);
    let mut departs = |images: &[char]| {
        let departures = roster.apply(None, runs(images)).departures;
        departures.iter().map(|d| d.artifact.workload.digests.iter().count()).collect::<Vec<_>>()
    };
    // One more container begins; another image; and back.
    assert_eq!(departs(&['a', 'b']), [] as [usize; 0]);
    assert_eq!(departs(&['e', 'b']), [2]);
    assert_eq!(departs(&['a', 'b']), [2]);
    assert_eq!(departs(&['a', 'b']), [] as [usize; 0]);
}
