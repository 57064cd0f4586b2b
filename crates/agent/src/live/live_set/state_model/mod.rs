//! Property tests: compares the live set with a plain map over random sequences of events.
//!
//! The tests use the public interface, except for the sizes of blocks.

mod plain;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::live::report::Report;
use client::ReportBody;
use model::ArtifactView;
use model::Digests;
use plain::{Described, Plain, Pod};

const NAMESPACES: [&str; 4] = ["a", "a-b", "b", "unselected"];

/// The selections of three environments; the first two overlap.
fn selections() -> Vec<Selection> {
    let select = |names: &[&str]| {
        let names = names.iter().map(|n| n.parse().unwrap()).collect();
        Selection::new(names, vec![], BTreeSet::new(), vec![]).unwrap()
    };
    vec![select(&["a", "b"]), select(&["a", "a-b"]), select(&["b"])]
}

#[derive(Debug, Clone)]
enum Step {
    Begin(Scope),
    Apply(Scope, Pod),
    Remove(Scope, Pod),
    Unreadable(Scope, Option<(usize, String)>),
    Complete(Scope),
    Snapshot,
}

type Scope = Option<usize>;

fn describe(artifact: &ArtifactView<'_>) -> Described {
    let of = |digests: &Digests| digests.iter().map(|(name, d)| (name.to_owned(), d.bytes()[0])).collect();
    (
        artifact.namespace.to_string(),
        artifact.pod_name.to_string(),
        artifact.created_at,
        of(&artifact.workload.digests),
    )
}

fn artifacts(snapshot: &Snapshot) -> Vec<Described> {
    snapshot.iter().map(|artifact| describe(&artifact)).collect()
}

fn pod() -> impl Strategy<Value = Pod> {
    let containers = proptest::collection::btree_map(0_u8..3, proptest::option::weighted(0.7, 1_u8..4), 0..3);
    (
        0..NAMESPACES.len(),
        "[a-c][.-]?[a-c]?",
        proptest::option::weighted(0.8, 0_u8..3),
        0_i64..3,
        0..4,
        containers,
    )
        .prop_map(|(namespace, name, uid, created_at, phase, containers)| Pod {
            namespace,
            name,
            uid,
            // A creation time is seldom missing.
            created_at: Some(created_at + 1).filter(|t| *t < 3 || uid == Some(0)),
            has_ended: phase == 0,
            containers,
        })
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![2 => Just(None), 1 => (0..NAMESPACES.len() - 1).prop_map(Some)]
}

fn step() -> impl Strategy<Value = Step> {
    let pod_in =
        || (scope(), pod()).prop_map(|(of, pod)| (of, Pod { namespace: of.unwrap_or(pod.namespace), ..pod }));
    let name = proptest::option::of((0..NAMESPACES.len(), "[a-c]?"));
    prop_oneof![
        2 => scope().prop_map(Step::Begin),
        16 => pod_in().prop_map(|(of, pod)| Step::Apply(of, pod)),
        5 => pod_in().prop_map(|(of, pod)| Step::Remove(of, pod)),
        2 => (scope(), name).prop_map(|(of, name)| {
            Step::Unreadable(of, name.map(|(namespace, name)| (of.unwrap_or(namespace), name)))
        }),
        2 => scope().prop_map(Step::Complete),
        1 => Just(Step::Snapshot),
    ]
}

/// Whether the departures are as expected. One that the set never contained has a new revision.
fn agree(departures: &[Departure], expected: &[(Described, Option<Revision>)], live_set: &LiveSet) -> bool {
    let latest = (0..3).map(|n| live_set.revision(n)).max().unwrap();
    departures.len() == expected.len()
        && departures.iter().zip(expected).all(|(departure, (artifact, since))| {
            describe(&departure.artifact.view()) == *artifact
                && since.map_or(departure.since > latest, |since| since == departure.since)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn live_set_equals_plain_map_after_any_events(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let (mut live_set, mut plain) = (LiveSet::new(selections(), Counting::All), Plain::default());
        let name = |of: Scope| of.map(|n| NAMESPACES[n].parse::<NamespaceName>().unwrap());
        let mut earlier_snapshots: Vec<(Snapshot, Vec<Described>)> = Vec::new();
        for step in steps {
            let before: Vec<_> =
                (0..3).map(|n| (live_set.revision(n), plain.artifacts(&selections()[n]))).collect();
            match &step {
                Step::Begin(of) => {
                    plain.begin(*of);
                    live_set.begin(name(*of).as_ref());
                }
                Step::Apply(of, pod) => {
                    let (departs, differs, is_repeated) = plain.apply(*of, pod);
                    let applied = live_set.apply(name(*of).as_ref(), pod.view());
                    prop_assert!(agree(&applied.departures, &departs, &live_set), "{applied:?} {departs:?}");
                    prop_assert_eq!(applied.is_repeated, is_repeated);
                    if differs {
                        // The live set chooses the revisions, so the plain map copies them.
                        let revision = live_set.namespace_revision(NAMESPACES[pod.namespace]).unwrap();
                        let pods = plain.pods.get_mut(NAMESPACES[pod.namespace]).unwrap();
                        pods.get_mut(&pod.name).unwrap().since = revision;
                    }
                }
                Step::Remove(of, pod) => {
                    let departs = plain.remove(*of, pod);
                    let departure = live_set.remove(name(*of).as_ref(), &pod.view());
                    prop_assert!(agree(departure.as_slice(), departs.as_slice(), &live_set), "{departure:?} {departs:?}");
                }
                Step::Unreadable(of, of_name) => {
                    plain.unreadable(*of, of_name.as_ref());
                    let of_name = of_name.as_ref().map(|(n, name)| (NAMESPACES[*n], name.as_str()));
                    live_set.unreadable(name(*of).as_ref(), of_name);
                }
                Step::Complete(of) => {
                    let (departs, diff) = plain.complete(*of);
                    let mut departures = BTreeSet::new();
                    let found = live_set.complete(name(*of).as_ref(), |departure| {
                        departures.insert((describe(&departure.artifact.view()), Some(departure.since)));
                    });
                    prop_assert_eq!((departures, found), (departs, diff));
                    prop_assert_eq!(live_set.is_listed(name(*of).as_ref()), plain.listed.contains(of));
                }
                Step::Snapshot => {
                    earlier_snapshots.extend((0..3).map(|n| {
                        (live_set.snapshot(n, vec![]), plain.artifacts(&selections()[n]))
                    }));
                }
            }
            for (n, (revision, was)) in before.into_iter().enumerate() {
                let selection = &selections()[n];
                let (snapshot, is) = (live_set.snapshot(n, vec![]), plain.artifacts(selection));
                prop_assert_eq!(&artifacts(&snapshot), &is);
                prop_assert_eq!(snapshot.len(), is.len());
                prop_assert!(live_set.revision(n) >= revision);
                prop_assert_eq!(live_set.revision(n) > revision, was != is, "{:?}", step);
                let mut tally = plain.tally(selection);
                tally.add_unreadable(
                    plain.unnamed.values().flatten().filter(|n| selection.selects(NAMESPACES[**n])).count() as u64,
                );
                prop_assert_eq!(live_set.tally(n), tally);
            }
        }
        for (snapshot, then) in earlier_snapshots {
            prop_assert_eq!(artifacts(&snapshot), then);
        }
    }

    #[test]
    fn order_of_pods_does_not_change_the_report(
        (in_order, shuffled) in proptest::collection::btree_set(("[ab-]{1,3}", "[a-c.-]{1,3}"), 0..12)
            .prop_map(|set| set.into_iter().collect::<Vec<_>>())
            .prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
    ) {
        let report = |pods: &[(String, String)]| {
            let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
            for (namespace, name) in pods {
                let containers = [(0, Some(1))].into();
                let pod = Pod {
                    namespace: 0, name: name.clone(), uid: None, created_at: Some(1), has_ended: false, containers,
                };
                live_set.apply(None, PodView { namespace: namespace.clone(), ..pod.view() });
            }
            Report::new(live_set.snapshot(0, vec![]))
        };
        let (one, other) = (report(&in_order), report(&shuffled));
        prop_assert_eq!(one.hash(), other.hash());
        prop_assert_eq!(one.chunks().flatten().collect::<Vec<_>>(), other.chunks().flatten().collect::<Vec<_>>());
    }

    /// Blocks are split, shrunk and merged while snapshots share them.
    #[test]
    fn large_namespace_stays_sorted_through_changes(
        steps in proptest::collection::vec((0..4_usize, 0..2_000_u32, 1..400_usize), 0..12),
    ) {
        let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
        let mut plain = BTreeSet::new();
        let mut kept = Vec::new();
        let pod = |n: u32| Pod {
            namespace: 0,
            name: format!("{:04}", n * 7_919 % 2_000),
            uid: None,
            created_at: Some(1),
            has_ended: false,
            containers: [(0, Some(1))].into(),
        };
        for (kind, start, count) in steps {
            let numbers = || (start..).take(count);
            match kind {
                0 | 1 => for pod in numbers().map(pod) {
                    live_set.apply(None, pod.view());
                    plain.insert(pod.name);
                },
                2 => for pod in numbers().map(pod) {
                    live_set.remove(None, &pod.view());
                    plain.remove(&pod.name);
                },
                _ => {
                    live_set.begin(None);
                    let stays: BTreeSet<_> = plain.iter().filter(|n| n.ends_with(['1', '3', '9'])).cloned().collect();
                    for name in &stays {
                        live_set.apply(None, Pod { name: name.clone(), ..pod(0) }.view());
                    }
                    // Changes during the list shift the marks.
                    let mut named = stays.clone();
                    for pod in numbers().map(pod) {
                        live_set.apply(None, pod.view());
                        named.insert(pod.name);
                    }
                    let gone: Vec<_> = plain.iter().filter(|name| name.ends_with(['3', '4'])).cloned().collect();
                    for name in &gone {
                        live_set.remove(None, &Pod { name: name.clone(), ..pod(0) }.view());
                        named.remove(name);
                        plain.remove(name);
                    }
                    let removed = live_set.complete(None, drop).removed;
                    prop_assert_eq!(removed, plain.difference(&named).count() as u64);
                    plain = named;
                }
            }
            kept.push((live_set.snapshot(0, vec![]), plain.clone()));
            let lengths: Vec<_> = live_set.namespaces.iter().flat_map(|n| n.pods.lengths()).collect();
            prop_assert!(lengths.iter().all(|n| (1..=256).contains(n)), "{:?}", lengths);
            prop_assert!(lengths.windows(2).all(|two| two[0] + two[1] >= 64), "{:?}", lengths);
        }
        for (snapshot, names) in kept {
            prop_assert!(snapshot.iter().map(|a| a.pod_name).eq(names.iter().map(String::as_str)));
        }
    }
}
