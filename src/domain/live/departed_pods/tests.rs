use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::domain::model::{Digests, OwnerReference};

/// The pods of a cluster, and what the witness is told of them.
struct Cluster {
    witness: Witness,
    revision: Revision,
    running: BTreeMap<(String, String), Revision>,
    started: i64,
}

impl Cluster {
    fn new(bounds: Bounds) -> Self {
        let witness = Witness::new(bounds);
        Self { witness, revision: Revision::default(), running: BTreeMap::new(), started: 0 }
    }

    /// A pod of this owner runs from now on.
    fn starts(&mut self, owner: &str, name: &str) {
        self.revision = self.revision.next();
        self.running.insert((owner.to_owned(), name.to_owned()), self.revision);
    }

    fn leaves(&mut self, owner: &str, name: &str) {
        let since = self.running.remove(&(owner.to_owned(), name.to_owned())).unwrap();
        self.revision = self.revision.next();
        self.ended(owner, name, since);
    }

    fn comes_and_goes(&mut self, owner: &str, name: &str) {
        self.starts(owner, name);
        self.leaves(owner, name);
    }

    /// A pod is seen for the first time when it has ended.
    fn is_seen_ended(&mut self, owner: &str, name: &str) {
        self.revision = self.revision.next();
        self.ended(owner, name, self.revision);
    }

    fn ended(&mut self, owner: &str, name: &str, since: Revision) {
        self.ended_in("shop", owner, name, since);
    }

    fn ended_in(&mut self, namespace: &str, owner: &str, name: &str, since: Revision) {
        self.started += 1;
        let owner = OwnerReference { name: Some(owner.into()), ..OwnerReference::default() };
        let workload = Workload { digests: Digests::from_iter([]), owners: [owner].into() };
        let artifact = Artifact {
            namespace: namespace.into(),
            pod_name: name.into(),
            created_at: self.started,
            workload: Arc::new(workload),
        };
        self.witness.departed(Departure { artifact, since }, self.revision);
    }

    fn witnessed(&self) -> Vec<String> {
        let artifacts = self.witness.artifacts();
        assert_eq!(artifacts.len(), self.witness.len());
        assert_eq!(artifacts.is_empty(), self.witness.is_empty());
        artifacts.iter().map(|artifact| artifact.pod_name.to_string()).collect()
    }
}

fn cluster() -> Cluster {
    Cluster::new(Bounds::default())
}

#[test]
fn a_pod_that_came_and_went_between_two_reports_is_witnessed_until_one_that_holds_it_is_accepted() {
    let mut cluster = cluster();
    cluster.comes_and_goes("job", "job-1");
    assert_eq!(cluster.witnessed(), ["job-1"]);
    cluster.witness.accepted(cluster.revision, Carried::Witnessed);
    assert!(cluster.witnessed().is_empty());
}

#[test]
fn a_pod_that_an_accepted_report_held_leaves_without_a_word() {
    let mut cluster = cluster();
    cluster.starts("web", "web-1");
    cluster.starts("web", "web-2");
    cluster.witness.accepted(cluster.revision, Carried::Nothing);
    cluster.leaves("web", "web-1");
    assert!(cluster.witnessed().is_empty());
    // Nor does a later answer to an older report take that back.
    cluster.witness.accepted(Revision::default(), Carried::Nothing);
    cluster.leaves("web", "web-2");
    assert!(cluster.witnessed().is_empty());
}

#[test]
fn a_pod_that_leaves_while_a_report_that_holds_it_is_in_flight_is_witnessed_only_if_that_fails() {
    let mut cluster = cluster();
    cluster.starts("web", "web-1");
    let in_flight = cluster.revision;
    cluster.leaves("web", "web-1");
    cluster.comes_and_goes("job", "job-1");
    assert_eq!(cluster.witnessed(), ["job-1", "web-1"], "it may fail");
    cluster.witness.accepted(in_flight, Carried::Nothing);
    assert_eq!(cluster.witnessed(), ["job-1"], "that one it did not hold");
}

#[test]
fn a_report_of_what_runs_alone_leaves_who_had_gone_before_it() {
    let mut cluster = cluster();
    cluster.starts("web", "web-1");
    cluster.comes_and_goes("job", "job-1");
    let follow_up = cluster.revision;
    cluster.leaves("web", "web-1");
    cluster.witness.accepted(follow_up, Carried::Nothing);
    assert_eq!(cluster.witnessed(), ["job-1"]);
    cluster.witness.accepted(cluster.revision, Carried::Witnessed);
    assert!(cluster.witnessed().is_empty());
}

#[test]
fn a_pod_first_seen_when_it_has_ended_is_witnessed() {
    let mut cluster = cluster();
    cluster.starts("web", "web-1");
    cluster.witness.accepted(cluster.revision, Carried::Nothing);
    let in_flight = cluster.revision;
    cluster.is_seen_ended("job", "job-1");
    cluster.witness.accepted(in_flight, Carried::Nothing);
    assert_eq!(cluster.witnessed(), ["job-1"]);
    cluster.witness.accepted(cluster.revision, Carried::Nothing);
    assert_eq!(cluster.witnessed(), ["job-1"], "a report of what runs did not hold it");
    cluster.witness.accepted(cluster.revision, Carried::Witnessed);
    assert!(cluster.witnessed().is_empty());
}

#[test]
fn all_that_came_and_went_in_an_hour_without_the_service_is_in_the_report_that_ends_it() {
    let mut cluster = cluster();
    cluster.starts("web", "web-1");
    cluster.witness.accepted(cluster.revision, Carried::Nothing);
    for minute in 0..60 {
        cluster.comes_and_goes("job", &format!("job-{minute:02}"));
    }
    cluster.leaves("web", "web-1");
    let jobs: Vec<_> = (0..60).map(|minute| format!("job-{minute:02}")).collect();
    assert_eq!(cluster.witnessed(), jobs);
    assert_eq!(cluster.witness.counts(), Counts::default());
}

#[test]
fn pods_come_in_report_order_and_of_one_name_the_older_first() {
    let mut cluster = cluster();
    for name in ["b", "db-0", "a", "db-0"] {
        cluster.comes_and_goes("db", name);
    }
    assert_eq!(cluster.witnessed(), ["a", "b", "db-0", "db-0"]);
    let times: Vec<_> = cluster.witness.artifacts().iter().map(|artifact| artifact.created_at).collect();
    assert_eq!(times, [3, 1, 2, 4]);
}

#[test]
fn past_a_thousand_one_is_kept_for_each_namespace_owner_and_set_of_digests() {
    let mut cluster = cluster();
    for n in 0..1_000 {
        cluster.comes_and_goes(["even", "odd"][n % 2], &format!("job-{n:04}"));
    }
    assert_eq!((cluster.witness.len(), cluster.witness.counts()), (1_000, Counts::default()));
    cluster.comes_and_goes("even", "job-1000");
    assert_eq!(cluster.witnessed(), ["job-0999", "job-1000"]);
    assert_eq!(cluster.witness.counts(), Counts { stood_for: 999, lost: 0 });
    // It stays so until a report carried them.
    cluster.comes_and_goes("even", "job-1001");
    cluster.comes_and_goes("other", "job-1002");
    assert_eq!(cluster.witnessed(), ["job-0999", "job-1001", "job-1002"]);
    cluster.witness.accepted(cluster.revision, Carried::Witnessed);
    cluster.comes_and_goes("even", "job-1");
    cluster.comes_and_goes("even", "job-2");
    assert_eq!(cluster.witnessed(), ["job-1", "job-2"]);
}

#[test]
fn past_ten_thousand_the_oldest_go_and_are_counted() {
    let mut cluster = cluster();
    for n in 0..10_003 {
        cluster.comes_and_goes(&format!("job-{n:05}"), &format!("job-{n:05}"));
    }
    let witnessed = cluster.witnessed();
    assert_eq!((witnessed.len(), witnessed[0].as_str()), (10_000, "job-00003"));
    assert_eq!(cluster.witness.counts(), Counts { stood_for: 0, lost: 3 });
    // One of a kind that went stands for nobody.
    cluster.comes_and_goes("job-00000", "again");
    assert_eq!(cluster.witness.counts(), Counts { stood_for: 0, lost: 4 });
}

#[test]
fn who_floods_a_namespace_crowds_out_nobody_of_another() {
    let mut cluster = Cluster::new(Bounds { each: 1, most: 10, ..Bounds::default() });
    for n in 0..3 {
        cluster.comes_and_goes(&format!("job-{n}"), &format!("job-{n}"));
    }
    for n in 0..100 {
        cluster.revision = cluster.revision.next();
        cluster.ended_in("flood", &format!("owner-{n:02}"), &format!("pod-{n:02}"), cluster.revision);
    }
    let witnessed = cluster.witnessed();
    assert_eq!(
        witnessed,
        ["pod-93", "pod-94", "pod-95", "pod-96", "pod-97", "pod-98", "pod-99", "job-0", "job-1", "job-2"]
    );
    assert_eq!(cluster.witness.counts(), Counts { stood_for: 0, lost: 93 });
}

#[test]
fn few_large_pods_are_too_many_as_well() {
    let mut cluster = Cluster::new(Bounds { bytes: 200_000, ..Bounds::default() });
    cluster.comes_and_goes("job", "small");
    for n in 0..10 {
        cluster.revision = cluster.revision.next();
        cluster.ended_in(
            "flood",
            &format!("{n}{}", "x".repeat(60_000)),
            &format!("large-{n}"),
            cluster.revision,
        );
    }
    assert_eq!(cluster.witnessed(), ["large-7", "large-8", "large-9", "small"]);
    cluster.witness.accepted(cluster.revision, Carried::Witnessed);
    assert!(cluster.witness.is_empty());
}

#[test]
fn the_one_that_stands_for_others_is_not_taken_away_by_a_report_that_held_only_an_older_one() {
    let mut cluster = Cluster::new(Bounds { each: 1, most: 10, ..Bounds::default() });
    cluster.starts("job", "long");
    let in_flight = cluster.revision;
    cluster.comes_and_goes("job", "short");
    cluster.leaves("job", "long");
    assert_eq!(cluster.witnessed(), ["short"]);
    cluster.witness.accepted(in_flight, Carried::Nothing);
    assert_eq!(cluster.witnessed(), ["short"]);
}

#[test]
fn one_that_stood_for_others_and_was_reported_stands_for_nobody() {
    let mut cluster = Cluster::new(Bounds { each: 1, most: 10, ..Bounds::default() });
    cluster.comes_and_goes("other", "gone");
    cluster.starts("job", "long");
    let in_flight = cluster.revision;
    cluster.leaves("job", "long");
    cluster.witness.accepted(in_flight, Carried::Nothing);
    cluster.comes_and_goes("job", "next");
    assert_eq!(cluster.witnessed(), ["gone", "next"]);
    assert_eq!(cluster.witness.counts(), Counts::default());
}

proptest! {
    /// Each pod, or where too many left at once another of its owner, is in a report that was accepted.
    #[test]
    fn whatever_happens_each_kind_of_pod_is_vouched_for(
        events in proptest::collection::vec((0..6_u8, 0..3_usize, any::<bool>()), 0..60),
        each in prop_oneof![0..3_usize, Just(100)],
    ) {
        let mut cluster = Cluster::new(Bounds { each, most: 1_000, ..Bounds::default() });
        let mut left = Vec::new();
        let mut vouched: Vec<(Revision, String, String)> = Vec::new();
        let mut flight = None;
        let kinds = |names: Vec<String>, revision: Revision| {
            let split = |name: String| (revision, name.split('-').next().unwrap().to_owned(), name);
            names.into_iter().map(split).collect::<Vec<_>>()
        };
        for (number, (event, owner, flag)) in events.into_iter().chain([(4, 0, true), (3, 0, true), (4, 0, true), (3, 0, true)]).enumerate() {
            let owner = ["a", "b", "c"][owner];
            match event {
                0 | 1 => cluster.starts(owner, &format!("{owner}-{number}")),
                2 | 5 => {
                    let running = cluster.running.iter().find(|((of, _), _)| of == owner);
                    let Some(((_, name), since)) = running.map(|(key, since)| (key.clone(), *since)) else { continue };
                    left.push((since, owner.to_owned(), name.clone()));
                    cluster.leaves(owner, &name);
                }
                3 => if let Some((revision, carried, names)) = flight.take() && flag {
                    cluster.witness.accepted(revision, carried);
                    vouched.extend(kinds(names, revision));
                },
                _ => if flight.is_none() {
                    let mut names: Vec<_> = cluster.running.keys().map(|(_, name)| name.clone()).collect();
                    let carried = if flag && !cluster.witness.is_empty() { Carried::Witnessed } else { Carried::Nothing };
                    if carried == Carried::Witnessed {
                        names.extend(cluster.witnessed());
                    }
                    flight = Some((cluster.revision, carried, names));
                },
            }
        }
        prop_assert!(cluster.witness.is_empty());
        let was_thinned = cluster.witness.counts().stood_for > 0;
        for (since, owner, name) in left {
            let is_vouched_for = vouched.iter().any(|(revision, of, named)| {
                named == &name || was_thinned && *of == owner && *revision >= since
            });
            prop_assert!(is_vouched_for, "{name}");
        }
    }
}
