//! Reports, made by the agent's own code, and attestations of their artifacts.

use std::sync::atomic::{AtomicU64, Ordering};

use agent::live::collapse::Counting;
use agent::live::live_set::LiveSet;
use agent::live::pod::PodView;
use agent::live::report::Report;
use agent::live::selection::Selection;
use client::ReportBody;

use super::replica_set::{ReplicaSet, digest};

/// Pods per deployment.
pub(super) const REPLICAS: usize = 25;

/// An artifact that runs in all pods of a [`Cluster`].
const PROXY: u64 = 1 << 60;

/// Flow and name of the attestation that policies require.
pub(super) const FLOW: &str = "builds";
pub(super) const NAME: &str = "unit";

/// Commit of all attestations.
const COMMIT: &str = "6f0e2c1d9b8a7f6e5d4c3b2a190817263544536a";

/// A cluster of deployments.
pub(super) struct Cluster {
    number: usize,
    deployments: Vec<ReplicaSet>,
    live_set: LiveSet,
    rollouts: usize,
}

impl Cluster {
    /// A cluster whose pods differ from those of other numbers. Every other deployment runs an image that all clusters
    /// run.
    pub(super) fn new(number: usize, pods: usize) -> Self {
        let deployments: Vec<_> = (0..pods / REPLICAS).map(|n| replica_set(number, n, 0)).collect();
        let pods = deployments.iter().flat_map(|set| (0..REPLICAS).map(|n| set.pod(n)));
        let live_set = listed(pods);
        Self { number, deployments, live_set, rollouts: 0 }
    }

    /// Replaces the image and the pods of the next deployment.
    pub(super) fn roll_out(&mut self) {
        self.rollouts += 1;
        let n = self.rollouts % self.deployments.len();
        let new = replica_set(self.number, n, self.rollouts);
        for pod in 0..REPLICAS {
            self.live_set.remove(None, &self.deployments[n].pod(pod));
            self.live_set.apply(None, new.pod(pod));
        }
        self.deployments[n] = new;
    }

    pub(super) fn body(&self) -> Vec<u8> {
        body(&self.live_set)
    }
}

fn replica_set(cluster: usize, n: usize, rollouts: usize) -> ReplicaSet {
    let own = if n.is_multiple_of(2) { 0 } else { cluster << 48 };
    let artifact = (own + (n << 32) + rollouts + 1) as u64;
    ReplicaSet::new(n, (cluster << 20) + rollouts, &[artifact, PROXY])
}

fn listed(pods: impl IntoIterator<Item = PodView>) -> LiveSet {
    let mut live_set = LiveSet::new(vec![Selection::default()], Counting::All);
    live_set.begin(None);
    for pod in pods {
        live_set.apply(None, pod);
    }
    live_set.complete(None, drop);
    live_set
}

fn body(live_set: &LiveSet) -> Vec<u8> {
    Report::new(live_set.snapshot(0, Vec::new())).chunks().flatten().collect()
}

/// Report of one pod of each artifact.
pub(super) fn report(artifacts: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let pods = artifacts.into_iter().map(|artifact| {
        let number = usize::try_from(artifact).unwrap();
        ReplicaSet::new(number, number, &[artifact]).pod(0)
    });
    body(&listed(pods))
}

/// `data_json` of a new attestation of artifacts, built from one commit of the repository `acme/shop`. Each has another
/// description: the service records equal ones once.
pub(super) fn attestation(passes: bool, artifacts: impl IntoIterator<Item = u64>) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let artifacts: Vec<String> = artifacts.into_iter().map(digest).collect();
    format!(
        r#"{{"attestation_name":"{NAME}","description":"{}","target_artifacts":["{}"],"junit_results":[{{"name":"all","total":9,"failures":{},"errors":0}}],"git_commit_info":{{"sha1":"{COMMIT}"}},"repo_info":{{"name":"acme/shop","url":"https://github.com/acme/shop"}}}}"#,
        NEXT.fetch_add(1, Ordering::Relaxed),
        artifacts.join("\",\""),
        u8::from(!passes),
    )
}

/// Settings of an organization whose environments require the attestation. A long silence is allowed, because the bench
/// inserts rows between reports.
pub(super) fn environments_with_policy(names: impl IntoIterator<Item = String>) -> String {
    let policy = format!("{{attestations: [{{flow: {FLOW}, name: {NAME}}}]}}");
    let lines = names
        .into_iter()
        .map(|name| format!("      - {{name: {name}, silentAfter: 7d, policy: {policy}}}\n"));
    format!("    environments:\n{}", lines.collect::<String>())
}
