mod exclusion;
mod invalid;
mod labels;

use super::*;
use crate::live::pod::ContainerView;
use model::Artifact;

/// An image ID whose digest repeats one byte.
fn image_id(byte: u8) -> String {
    format!("sha256:{}", format!("{byte:02x}").repeat(32))
}

fn container(name: &str, image_id: &str) -> ContainerView {
    ContainerView { name: name.into(), image: "app".into(), image_id: image_id.into(), ..Default::default() }
}

/// A running pod with one image, and a uid from its name and creation time.
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

fn everything() -> LiveSet {
    LiveSet::new(vec![Selection::default()], Counting::All)
}

/// A set whose first list is complete and contained these pods.
fn listed(pods: impl IntoIterator<Item = PodView>) -> LiveSet {
    let mut live_set = everything();
    live_set.begin(None);
    for pod in pods {
        live_set.apply(None, pod);
    }
    live_set.complete(None, |gone| panic!("{gone:?}"));
    live_set
}

fn only(namespace: &str) -> Selection {
    Selection::new([namespace.parse().unwrap()].into(), vec![], [].into(), vec![]).unwrap()
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.iter().map(|a| format!("{}/{}", a.namespace, a.pod_name)).collect()
}

/// The name, creation time and digests of a departure.
fn describe(departure: &Departure) -> String {
    let Artifact { namespace, pod_name, created_at, workload } = &departure.artifact;
    let digests: Vec<_> = workload.digests.iter().map(|(_, digest)| digest.bytes()[0].to_string()).collect();
    format!("{namespace}/{pod_name}#{created_at}: {}", digests.join(" "))
}

#[test]
fn artifacts_are_sorted_by_namespace_slash_name() {
    let live_set = listed([pod("b", "x", 1), pod("a", "y", 1), pod("a-b", "x", 1), pod("a", "x", 1)]);
    assert_eq!(names(&live_set.snapshot(0, vec![])), ["a-b/x", "a/x", "a/y", "b/x"]);
}

#[test]
fn environment_contains_selected_namespaces_and_their_tally() {
    let except_b = Selection::new([].into(), vec![], ["b".parse().unwrap()].into(), vec![]).unwrap();
    let mut live_set = LiveSet::new(vec![except_b, only("b"), only("d")], Counting::All);
    let empty = PodView { containers: vec![], ..pod("b", "new", 1) };
    for pod in [pod("a", "x", 1), pod("b", "x", 1), pod("b", "y", 1), empty, pod("c", "x", 1)] {
        live_set.apply(None, pod);
    }
    assert_eq!(names(&live_set.snapshot(0, vec![])), ["a/x", "c/x"]);
    let b = live_set.snapshot(1, vec![]);
    assert_eq!((names(&b), b.len()), (vec!["b/x".to_owned(), "b/y".to_owned()], 2));
    assert_eq!((b.tally.pods, &b.tally.skipped_pods), (3, &[(PodSkip::NotStarted, 1)].into()));
    assert_eq!([0, 1, 2].map(|n| live_set.has_seen_any(n)), [true, true, false]);
    assert!(live_set.has_seen("b") && !live_set.has_seen("d"));
}

#[test]
fn pods_of_unselected_namespaces_are_not_stored() {
    let mut live_set = LiveSet::new(vec![only("a")], Counting::All);
    assert_eq!(live_set.apply(None, ended(pod("b", "x", 1))), ApplyResult::default());
    assert_eq!(live_set.unreadable(None, Some(("b", "y"))), UnreadableItem::NotSelected);
    assert_eq!((live_set.namespaces.len(), live_set.templates.len()), (0, 0));
}

#[test]
fn only_a_complete_list_removes_unlisted_pods() {
    let mut live_set = listed([pod("a", "x", 1), pod("a", "y", 1), pod("b", "z", 1)]);
    live_set.begin(None);
    live_set.apply(None, pod("a", "x", 1));
    live_set.apply(None, pod("b", "z", 2));
    assert_eq!(names(&live_set.snapshot(0, vec![])), ["a/x", "a/y", "b/z"]);
    live_set.begin(None);
    live_set.apply(None, pod("a", "x", 1));
    live_set.apply(None, pod("a", "new", 1));
    let mut gone = Vec::new();
    let diff = live_set.complete(None, |departure| gone.push(describe(&departure)));
    assert_eq!(
        (names(&live_set.snapshot(0, vec![])), gone),
        (vec!["a/new".into(), "a/x".into()], vec!["a/y#1: 1".into(), "b/z#2: 1".into()])
    );
    assert_eq!(diff, RelistDiff { added: 1, changed: 1, removed: 2 });
}

#[test]
fn unchanged_list_has_no_diff_and_no_new_revision() {
    let pods = || (0..1_000).map(|n| pod(["a", "b"][n % 2], &format!("x-{n}"), 1));
    let mut live_set = listed(pods());
    let revision = live_set.revision(0);
    live_set.begin(None);
    for pod in pods() {
        assert_eq!(live_set.apply(None, pod), ApplyResult::default());
    }
    assert_eq!(live_set.complete(None, |gone| panic!("{gone:?}")), RelistDiff::default());
    assert_eq!(live_set.revision(0), revision);
}

#[test]
fn list_of_one_namespace_does_not_affect_others() {
    let (a, b): (NamespaceName, NamespaceName) = ("a".parse().unwrap(), "b".parse().unwrap());
    let mut live_set = everything();
    for (of, name) in [(&a, "x"), (&b, "y")] {
        assert!(!live_set.is_listed(Some(of)));
        live_set.begin(Some(of));
        live_set.apply(Some(of), pod(of.as_str(), name, 1));
        live_set.complete(Some(of), |gone| panic!("{gone:?}"));
        assert!(live_set.is_listed(Some(of)));
    }
    let of_b = live_set.namespace_revision("b");
    live_set.begin(Some(&a));
    assert_eq!(live_set.complete(Some(&a), |_| ()).removed, 1);
    assert_eq!(names(&live_set.snapshot(0, vec![])), ["b/y"]);
    assert_eq!((live_set.namespace_revision("a"), live_set.namespace_revision("b")), (None, of_b));
}

#[test]
fn pod_replaced_by_same_name_departs_and_is_repeated_in_the_list() {
    let mut live_set = everything();
    live_set.begin(None);
    assert!(!live_set.apply(None, pod("a", "x", 1)).is_repeated);
    let since = live_set.revision(0);
    let applied = live_set.apply(None, pod("a", "x", 2));
    assert!(applied.is_repeated);
    assert_eq!(applied.departures.iter().map(describe).collect::<Vec<_>>(), ["a/x#1: 1"]);
    assert_eq!(applied.departures[0].since, since);
    assert_eq!(live_set.snapshot(0, vec![]).iter().map(|a| a.created_at).collect::<Vec<_>>(), [2]);
    live_set.complete(None, |gone| panic!("{gone:?}"));
    assert!(!live_set.apply(None, pod("a", "x", 2)).is_repeated, "a watch may repeat a pod");
}

#[test]
fn two_pods_with_one_name_depart_at_once() {
    let mut live_set = listed([pod("a", "x", 1)]);
    let departures = live_set.apply(None, ended(pod("a", "x", 2))).departures;
    assert_eq!(departures.iter().map(describe).collect::<Vec<_>>(), ["a/x#1: 1", "a/x#2: 1"]);
    assert!(departures[1].since > live_set.revision(0), "no report can have contained it");
}

#[test]
fn ended_pod_departs_once_even_if_first_seen_ended() {
    let mut live_set = listed([pod("a", "old", 1), ended(pod("a", "done", 1))]);
    let since = live_set.revision(0);
    for (pod, departs) in [
        (ended(pod("a", "old", 1)), Some("a/old#1: 1")),
        (ended(pod("a", "old", 1)), None),
        (ended(pod("a", "done", 1)), None),
        (ended(pod("a", "brief", 1)), Some("a/brief#1: 1")),
        (ended(pod("a", "brief", 1)), None),
        (ended(PodView { containers: vec![], ..pod("a", "never", 1) }), None),
    ] {
        let departures = live_set.apply(None, pod).departures;
        assert_eq!(departures.iter().map(describe).collect::<Vec<_>>(), Vec::from_iter(departs));
        assert!(departures.iter().all(|d| d.artifact.pod_name.as_ref() != "old" || d.since == since));
    }
    assert_eq!(live_set.tally(0).skipped_pods, [(PodSkip::Ended, 4)].into());
    for gone in ["old", "done", "brief", "never"] {
        assert_eq!(live_set.remove(None, &pod("a", gone, 1)), None);
    }
    assert_eq!((live_set.tally(0), live_set.namespaces.len()), (Tally::default(), 0));
}

#[test]
fn pod_that_started_and_ended_between_two_events_departs() {
    let waiting = PodView { containers: vec![container("app", "")], ..pod("a", "x", 1) };
    let mut live_set = listed([waiting.clone()]);
    let departures = live_set.apply(None, ended(pod("a", "x", 1))).departures;
    assert_eq!(departures.iter().map(describe).collect::<Vec<_>>(), ["a/x#1: 1"]);
    assert!(departures[0].since > live_set.revision(0));
    let mut live_set = listed([waiting]);
    assert_eq!(live_set.remove(None, &pod("a", "x", 1)).as_ref().map(describe), Some("a/x#1: 1".into()));
}

#[test]
fn departure_contains_every_digest_even_unreported_ones() {
    let more = PodView {
        containers: vec![container("app", &image_id(1)), container("debug", &image_id(2))],
        ..pod("a", "x", 1)
    };
    for end in [LiveSet::apply_end, |live_set: &mut LiveSet, pod: PodView| live_set.remove(None, &pod)] {
        let mut live_set = listed([pod("a", "x", 1)]);
        let departure = end(&mut live_set, more.clone()).unwrap();
        assert_eq!(describe(&departure), "a/x#1: 1 2");
        assert!(departure.since > live_set.revision(0));
        // Known digests are kept if the last event lacks them.
        let mut live_set = listed([more.clone()]);
        let since = live_set.revision(0);
        let forgotten = PodView { containers: vec![container("app", "")], ..pod("a", "x", 1) };
        let departure = end(&mut live_set, forgotten).unwrap();
        assert_eq!((describe(&departure), departure.since), ("a/x#1: 1 2".into(), since));
    }
}

impl LiveSet {
    fn apply_end(&mut self, pod: PodView) -> Option<Departure> {
        self.apply(None, ended(pod)).departures.pop()
    }
}

#[test]
fn digests_survive_a_node_restart() {
    let both = vec![container("app", &image_id(1)), container("side", &image_id(2))];
    let mut live_set = listed([PodView { containers: both, ..pod("a", "x", 1) }]);
    let (revision, tally) = (live_set.revision(0), live_set.tally(0));
    for containers in [vec![container("app", ""), container("side", "")], vec![container("side", "")], vec![]]
    {
        live_set.apply(None, PodView { containers, ..pod("a", "x", 1) });
        assert_eq!((live_set.revision(0), &live_set.tally(0)), (revision, &tally));
    }
    live_set.apply(None, PodView { containers: vec![container("app", &image_id(3))], ..pod("a", "x", 1) });
    assert!(live_set.revision(0) > revision);
    let digests = |live_set: &LiveSet| -> Vec<u8> {
        let snapshot = live_set.snapshot(0, vec![]);
        snapshot.iter().flat_map(|a| a.workload.digests.iter().map(|(_, d)| d.bytes()[0])).collect()
    };
    assert_eq!(digests(&live_set), [2, 3]);
    // A later pod with that name does not inherit them.
    live_set.apply(None, PodView { containers: vec![container("side", "")], ..pod("a", "x", 2) });
    assert_eq!(digests(&live_set), [0; 0]);
}

#[test]
fn unreadable_pods_are_counted_and_known_ones_kept() {
    let mut live_set = listed([pod("a", "x", 1)]);
    live_set.begin(None);
    assert_eq!(live_set.unreadable(None, Some(("a", "x"))), UnreadableItem::Kept);
    assert_eq!(live_set.unreadable(None, Some(("a", "y"))), UnreadableItem::Skipped);
    assert_eq!(live_set.unreadable(None, Some(("a", ""))), UnreadableItem::Skipped);
    assert_eq!(live_set.unreadable(None, None), UnreadableItem::Unattributed);
    assert_eq!(live_set.unattributed(0), 0, "an incomplete list does not count");
    assert_eq!(
        live_set.complete(None, |gone| panic!("{gone:?}")),
        RelistDiff { added: 1, ..RelistDiff::default() }
    );
    assert_eq!((live_set.tally(0).pods, live_set.unattributed(0)), (3, 1));
    assert_eq!(live_set.tally(0).skipped_pods, [(PodSkip::Unreadable, 2)].into());
    live_set.begin(None);
    live_set.apply(None, pod("a", "x", 1));
    live_set.apply(None, pod("a", "y", 1));
    live_set.complete(None, |gone| panic!("{gone:?}"));
    assert_eq!((live_set.tally(0).artifacts, live_set.tally(0).pods, live_set.unattributed(0)), (2, 2, 0));
}

#[test]
fn pod_deleted_by_name_departs_in_its_last_state() {
    let mut live_set = listed([pod("a", "x", 1)]);
    assert_eq!(live_set.remove_named(None, "a", "never"), None);
    assert_eq!(live_set.remove_named(None, "elsewhere", "x"), None);
    let departure = live_set.remove_named(None, "a", "x").unwrap();
    assert_eq!(
        describe(&departure),
        describe(&listed([pod("a", "x", 1)]).remove(None, &pod("a", "x", 1)).unwrap())
    );
    assert!(names(&live_set.snapshot(0, vec![])).is_empty());
}

#[test]
fn namespace_stays_seen_after_its_pod_is_deleted() {
    let mut live_set = LiveSet::new(vec![only("a")], Counting::All);
    live_set.apply(None, ended(pod("a", "x", 1)));
    live_set.remove(None, &pod("a", "x", 1));
    assert!(live_set.has_seen("a") && live_set.has_seen_any(0));
}

#[test]
fn departed_pods_are_in_report_order() {
    let departed = [pod("a", "w", 1), pod("b", "x", 1), pod("c", "x", 0)].map(|pod| {
        let mut live_set = listed([pod.clone()]);
        live_set.remove(None, &pod).unwrap().artifact
    });
    let live_set = listed([pod("a", "x", 1), pod("b", "x", 2), ended(pod("b", "y", 1)), pod("b", "z", 1)]);
    let snapshot = live_set.snapshot(0, departed.into_iter().rev().collect());
    let all: Vec<_> =
        snapshot.iter().map(|a| format!("{}/{}#{}", a.namespace, a.pod_name, a.created_at)).collect();
    assert_eq!(all, ["a/w#1", "a/x#1", "b/x#1", "b/x#2", "b/z#1", "c/x#0"]);
    assert_eq!(snapshot.len(), 6);
    let mut iter = snapshot.iter();
    for n in 0..=6 {
        assert_eq!(snapshot.iter_from(iter.cursor()).count(), 6 - n);
        iter.next();
    }
}

#[test]
fn departed_pod_that_runs_again_is_reported_once() {
    let mut live_set = listed([pod("a", "x", 1), pod("a", "y", 1)]);
    let gone = ["x", "y"].map(|name| live_set.remove(None, &pod("a", name, 1)).unwrap().artifact);
    live_set.apply(None, pod("a", "x", 1));
    // A later pod with the same name.
    live_set.apply(None, pod("a", "y", 2));
    // The same pod may depart twice.
    let gone = [gone.to_vec(), gone.to_vec()].concat();
    let snapshot = live_set.snapshot(0, gone);
    let all: Vec<_> = snapshot.iter().map(|a| format!("{}#{}", a.pod_name, a.created_at)).collect();
    assert_eq!(all, ["x#1", "y#1", "y#2"]);
    assert_eq!(snapshot.len(), 3);
}

#[test]
fn sorted_list_fills_blocks_and_similar_pods_share_a_template() {
    let mut live_set = listed((0..1_000).map(|n| pod("a", &format!("web-{n:03}"), n)));
    assert_eq!(live_set.namespaces[0].pods.lengths(), [256, 256, 256, 232]);
    assert_eq!(live_set.templates.len(), 1);
    // Small blocks are merged.
    for n in (0..1_000).filter(|n| n % 10 != 0) {
        live_set.remove(None, &pod("a", &format!("web-{n:03}"), n)).unwrap();
    }
    assert!(live_set.namespaces[0].pods.lengths().len() <= 2, "{:?}", live_set.namespaces[0].pods.lengths());
    assert_eq!(live_set.snapshot(0, vec![]).len(), 100);
}

#[test]
fn replaced_digest_departs_and_added_digest_does_not() {
    let runs = |images: &[char]| {
        let mut pod = pod("a", "x", 1);
        let container = pod.containers[0].clone();
        let with = |digit: &char| {
            let image_id = format!("r.io/i@sha256:{}", digit.to_string().repeat(64));
            crate::live::pod::ContainerView { image_id, ..container.clone() }
        };
        pod.containers = images.iter().map(with).collect();
        for (n, container) in pod.containers.iter_mut().enumerate() {
            container.name = format!("c{n}");
        }
        pod
    };
    let mut live_set = listed([runs(&['a'])]);
    let mut departs = |images: &[char]| {
        let departures = live_set.apply(None, runs(images)).departures;
        departures.iter().map(|d| d.artifact.workload.digests.iter().count()).collect::<Vec<_>>()
    };
    // An added container, a replaced image, and the reverse.
    assert_eq!(departs(&['a', 'b']), [] as [usize; 0]);
    assert_eq!(departs(&['e', 'b']), [2]);
    assert_eq!(departs(&['a', 'b']), [2]);
    assert_eq!(departs(&['a', 'b']), [] as [usize; 0]);
}
