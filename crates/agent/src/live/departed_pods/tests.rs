use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use model::{Digests, OwnerReference};

/// A cluster that passes its departures to `DepartedPods`.
struct Cluster {
    departed_pods: DepartedPods,
    revision: Revision,
    running: BTreeMap<(String, String), Revision>,
    started: i64,
}

impl Cluster {
    fn new(bounds: Limits) -> Self {
        let departed_pods = DepartedPods::new(bounds);
        Self { departed_pods, revision: Revision::default(), running: BTreeMap::new(), started: 0 }
    }

    fn start(&mut self, owner: &str, name: &str) {
        self.revision = self.revision.next();
        self.running.insert((owner.to_owned(), name.to_owned()), self.revision);
    }

    fn delete(&mut self, owner: &str, name: &str) {
        let since = self.running.remove(&(owner.to_owned(), name.to_owned())).unwrap();
        self.revision = self.revision.next();
        self.ended(owner, name, since);
    }

    fn start_and_delete(&mut self, owner: &str, name: &str) {
        self.start(owner, name);
        self.delete(owner, name);
    }

    /// A pod has already ended when it is first seen.
    fn see_ended(&mut self, owner: &str, name: &str) {
        self.revision = self.revision.next();
        self.ended(owner, name, self.revision);
    }

    fn ended(&mut self, owner: &str, name: &str, since: Revision) {
        self.ended_in("shop", owner, name, since);
    }

    fn ended_in(&mut self, namespace: &str, owner: &str, name: &str, since: Revision) {
        self.started += 1;
        let owner = OwnerReference { name: Some(owner.into()), ..OwnerReference::default() };
        let workload =
            Workload { digests: Digests::from_iter([]), owners: [owner].into(), is_excluded: false };
        let artifact = Artifact {
            namespace: namespace.into(),
            pod_name: name.into(),
            created_at: self.started,
            workload: Arc::new(workload),
        };
        self.departed_pods.insert(Departure { artifact, since }, self.revision);
    }

    fn departed(&self) -> Vec<String> {
        let artifacts = self.departed_pods.artifacts();
        assert_eq!(artifacts.len(), self.departed_pods.len());
        assert_eq!(artifacts.is_empty(), self.departed_pods.is_empty());
        artifacts.iter().map(|artifact| artifact.pod_name.to_string()).collect()
    }
}

fn cluster() -> Cluster {
    Cluster::new(Limits::default())
}

#[test]
fn departed_pod_is_kept_until_a_report_with_it_is_accepted() {
    let mut cluster = cluster();
    cluster.start_and_delete("job", "job-1");
    assert_eq!(cluster.departed(), ["job-1"]);
    cluster.departed_pods.report_accepted(cluster.revision, Contents::RunningAndDeparted);
    assert!(cluster.departed().is_empty());
}

#[test]
fn pod_in_accepted_report_is_not_kept_after_deletion() {
    let mut cluster = cluster();
    cluster.start("web", "web-1");
    cluster.start("web", "web-2");
    cluster.departed_pods.report_accepted(cluster.revision, Contents::Running);
    cluster.delete("web", "web-1");
    assert!(cluster.departed().is_empty());
    // A later response to an older report does not change that.
    cluster.departed_pods.report_accepted(Revision::default(), Contents::Running);
    cluster.delete("web", "web-2");
    assert!(cluster.departed().is_empty());
}

#[test]
fn pod_deleted_during_upload_is_kept_only_if_the_upload_fails() {
    let mut cluster = cluster();
    cluster.start("web", "web-1");
    let in_flight = cluster.revision;
    cluster.delete("web", "web-1");
    cluster.start_and_delete("job", "job-1");
    assert_eq!(cluster.departed(), ["job-1", "web-1"], "the upload may fail");
    cluster.departed_pods.report_accepted(in_flight, Contents::Running);
    assert_eq!(cluster.departed(), ["job-1"], "not in the report");
}

#[test]
fn report_of_running_pods_keeps_earlier_departures() {
    let mut cluster = cluster();
    cluster.start("web", "web-1");
    cluster.start_and_delete("job", "job-1");
    let follow_up = cluster.revision;
    cluster.delete("web", "web-1");
    cluster.departed_pods.report_accepted(follow_up, Contents::Running);
    assert_eq!(cluster.departed(), ["job-1"]);
    cluster.departed_pods.report_accepted(cluster.revision, Contents::RunningAndDeparted);
    assert!(cluster.departed().is_empty());
}

#[test]
fn pod_first_seen_ended_is_kept() {
    let mut cluster = cluster();
    cluster.start("web", "web-1");
    cluster.departed_pods.report_accepted(cluster.revision, Contents::Running);
    let in_flight = cluster.revision;
    cluster.see_ended("job", "job-1");
    cluster.departed_pods.report_accepted(in_flight, Contents::Running);
    assert_eq!(cluster.departed(), ["job-1"]);
    cluster.departed_pods.report_accepted(cluster.revision, Contents::Running);
    assert_eq!(cluster.departed(), ["job-1"], "not in a report of running pods");
    cluster.departed_pods.report_accepted(cluster.revision, Contents::RunningAndDeparted);
    assert!(cluster.departed().is_empty());
}

#[test]
fn pods_departed_during_an_outage_are_in_the_next_report() {
    let mut cluster = cluster();
    cluster.start("web", "web-1");
    cluster.departed_pods.report_accepted(cluster.revision, Contents::Running);
    for minute in 0..60 {
        cluster.start_and_delete("job", &format!("job-{minute:02}"));
    }
    cluster.delete("web", "web-1");
    let jobs: Vec<_> = (0..60).map(|minute| format!("job-{minute:02}")).collect();
    assert_eq!(cluster.departed(), jobs);
    assert_eq!(cluster.departed_pods.counts(), Counts::default());
}

#[test]
fn artifacts_are_in_report_order_then_by_age() {
    let mut cluster = cluster();
    for name in ["b", "db-0", "a", "db-0"] {
        cluster.start_and_delete("db", name);
    }
    assert_eq!(cluster.departed(), ["a", "b", "db-0", "db-0"]);
    let times: Vec<_> =
        cluster.departed_pods.artifacts().iter().map(|artifact| artifact.created_at).collect();
    assert_eq!(times, [3, 1, 2, 4]);
}

#[test]
fn pods_above_a_thousand_are_deduplicated() {
    let mut cluster = cluster();
    for n in 0..1_000 {
        cluster.start_and_delete(["even", "odd"][n % 2], &format!("job-{n:04}"));
    }
    assert_eq!((cluster.departed_pods.len(), cluster.departed_pods.counts()), (1_000, Counts::default()));
    cluster.start_and_delete("even", "job-1000");
    assert_eq!(cluster.departed(), ["job-0999", "job-1000"]);
    assert_eq!(cluster.departed_pods.counts(), Counts { deduplicated: 999, dropped: 0 });
    // Deduplication continues until an accepted report contained them.
    cluster.start_and_delete("even", "job-1001");
    cluster.start_and_delete("other", "job-1002");
    assert_eq!(cluster.departed(), ["job-0999", "job-1001", "job-1002"]);
    cluster.departed_pods.report_accepted(cluster.revision, Contents::RunningAndDeparted);
    cluster.start_and_delete("even", "job-1");
    cluster.start_and_delete("even", "job-2");
    assert_eq!(cluster.departed(), ["job-1", "job-2"]);
}

#[test]
fn oldest_pods_above_ten_thousand_are_dropped_and_counted() {
    let mut cluster = cluster();
    for n in 0..10_003 {
        cluster.start_and_delete(&format!("job-{n:05}"), &format!("job-{n:05}"));
    }
    let departed = cluster.departed();
    assert_eq!((departed.len(), departed[0].as_str()), (10_000, "job-00003"));
    assert_eq!(cluster.departed_pods.counts(), Counts { deduplicated: 0, dropped: 3 });
    // A dropped pod no longer represents its group.
    cluster.start_and_delete("job-00000", "again");
    assert_eq!(cluster.departed_pods.counts(), Counts { deduplicated: 0, dropped: 4 });
}

#[test]
fn large_namespace_does_not_evict_pods_of_another() {
    let mut cluster = Cluster::new(Limits { max_individual: 1, max_pods: 10, ..Limits::default() });
    for n in 0..3 {
        cluster.start_and_delete(&format!("job-{n}"), &format!("job-{n}"));
    }
    for n in 0..100 {
        cluster.revision = cluster.revision.next();
        cluster.ended_in("flood", &format!("owner-{n:02}"), &format!("pod-{n:02}"), cluster.revision);
    }
    let departed = cluster.departed();
    assert_eq!(
        departed,
        ["pod-93", "pod-94", "pod-95", "pod-96", "pod-97", "pod-98", "pod-99", "job-0", "job-1", "job-2"]
    );
    assert_eq!(cluster.departed_pods.counts(), Counts { deduplicated: 0, dropped: 93 });
}

#[test]
fn oldest_pods_above_the_size_limit_are_dropped() {
    let mut cluster = Cluster::new(Limits { max_bytes: 200_000, ..Limits::default() });
    cluster.start_and_delete("job", "small");
    for n in 0..10 {
        cluster.revision = cluster.revision.next();
        cluster.ended_in(
            "flood",
            &format!("{n}{}", "x".repeat(60_000)),
            &format!("large-{n}"),
            cluster.revision,
        );
    }
    assert_eq!(cluster.departed(), ["large-7", "large-8", "large-9", "small"]);
    cluster.departed_pods.report_accepted(cluster.revision, Contents::RunningAndDeparted);
    assert!(cluster.departed_pods.is_empty());
}

#[test]
fn representative_survives_report_of_an_older_pod_of_its_group() {
    let mut cluster = Cluster::new(Limits { max_individual: 1, max_pods: 10, ..Limits::default() });
    cluster.start("job", "long");
    let in_flight = cluster.revision;
    cluster.start_and_delete("job", "short");
    cluster.delete("job", "long");
    assert_eq!(cluster.departed(), ["short"]);
    cluster.departed_pods.report_accepted(in_flight, Contents::Running);
    assert_eq!(cluster.departed(), ["short"]);
}

#[test]
fn reported_pod_no_longer_represents_its_group() {
    let mut cluster = Cluster::new(Limits { max_individual: 1, max_pods: 10, ..Limits::default() });
    cluster.start_and_delete("other", "gone");
    cluster.start("job", "long");
    let in_flight = cluster.revision;
    cluster.delete("job", "long");
    cluster.departed_pods.report_accepted(in_flight, Contents::Running);
    cluster.start_and_delete("job", "next");
    assert_eq!(cluster.departed(), ["gone", "next"]);
    assert_eq!(cluster.departed_pods.counts(), Counts::default());
}

proptest! {
    /// An accepted report contains each departed pod, or another pod of its owner after deduplication.
    #[test]
    fn every_departed_pod_or_its_group_is_reported(
        events in proptest::collection::vec((0..6_u8, 0..3_usize, any::<bool>()), 0..60),
        max_individual in prop_oneof![0..3_usize, Just(100)],
    ) {
        let mut cluster = Cluster::new(Limits { max_individual, max_pods: 1_000, ..Limits::default() });
        let mut departed = Vec::new();
        let mut reported: Vec<(Revision, String, String)> = Vec::new();
        let mut flight = None;
        let with_owner = |names: Vec<String>, revision: Revision| {
            let split = |name: String| (revision, name.split('-').next().unwrap().to_owned(), name);
            names.into_iter().map(split).collect::<Vec<_>>()
        };
        for (number, (event, owner, flag)) in events.into_iter().chain([(4, 0, true), (3, 0, true), (4, 0, true), (3, 0, true)]).enumerate() {
            let owner = ["a", "b", "c"][owner];
            match event {
                0 | 1 => cluster.start(owner, &format!("{owner}-{number}")),
                2 | 5 => {
                    let running = cluster.running.iter().find(|((of, _), _)| of == owner);
                    let Some(((_, name), since)) = running.map(|(key, since)| (key.clone(), *since)) else { continue };
                    departed.push((since, owner.to_owned(), name.clone()));
                    cluster.delete(owner, &name);
                }
                3 => if let Some((revision, contents, names)) = flight.take() && flag {
                    cluster.departed_pods.report_accepted(revision, contents);
                    reported.extend(with_owner(names, revision));
                },
                _ => if flight.is_none() {
                    let mut names: Vec<_> = cluster.running.keys().map(|(_, name)| name.clone()).collect();
                    let contents = if flag && !cluster.departed_pods.is_empty() { Contents::RunningAndDeparted } else { Contents::Running };
                    if contents == Contents::RunningAndDeparted {
                        names.extend(cluster.departed());
                    }
                    flight = Some((cluster.revision, contents, names));
                },
            }
        }
        prop_assert!(cluster.departed_pods.is_empty());
        let was_deduplicated = cluster.departed_pods.counts().deduplicated > 0;
        for (since, owner, name) in departed {
            let is_reported = reported.iter().any(|(revision, of, named)| {
                named == &name || was_deduplicated && *of == owner && *revision >= since
            });
            prop_assert!(is_reported, "{name}");
        }
    }
}
