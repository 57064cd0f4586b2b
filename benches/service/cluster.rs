//! Reports of a fake cluster, and attestations of its artifacts.

use std::fmt::Write as _;

/// Pods per deployment.
const REPLICAS: usize = 25;

/// Number of the artifact that runs in all pods of a [`Cluster`].
pub(super) const PROXY: u64 = 1 << 60;

/// A cluster as JSON of its deployments.
pub(super) struct Cluster {
    number: usize,
    deployments: Vec<String>,
    rollouts: usize,
}

impl Cluster {
    pub(super) fn new(pods: usize) -> Self {
        Self::numbered(0, pods)
    }

    /// A cluster whose pods differ from those of other numbers. Every other deployment runs an image that all clusters
    /// run.
    pub(super) fn numbered(number: usize, pods: usize) -> Self {
        let deployments = (0..pods / REPLICAS).map(|n| deployment(number, n, 0)).collect();
        Self { number, deployments, rollouts: 0 }
    }

    /// Replaces the image and the pods of the next deployment.
    pub(super) fn roll_out(&mut self) {
        self.rollouts += 1;
        let n = self.rollouts % self.deployments.len();
        self.deployments[n] = deployment(self.number, n, self.rollouts);
    }

    pub(super) fn body(&self) -> Vec<u8> {
        format!(r#"{{"type":"K8S","artifacts":[{}]}}"#, self.deployments.join(",")).into_bytes()
    }
}

/// JSON of the pods of a deployment's revision, about 550 bytes each.
fn deployment(cluster: usize, n: usize, revision: usize) -> String {
    let mut json = String::new();
    let own_image = if n.is_multiple_of(2) { 0 } else { cluster << 48 };
    for replica in 0..REPLICAS {
        let namespace = format!("team-{:04}", n / 40);
        let owner = format!("service-{:02}-{:010x}", n % 40, (cluster * 4_096 + n) * 1_000_003 + revision);
        let comma = if replica == 0 { "" } else { "," };
        write!(
            json,
            r#"{comma}{{"podName":"{owner}-{replica:05x}","namespace":"{namespace}","digests":{{"registry.example.com/{namespace}/service-{:02}:1.{revision}.0":"{:064x}","registry.example.com/mesh/proxy:2.14.1":"{:064x}"}},"creationTimestamp":{},"owners":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{owner}","uid":"6d5f8b7c-9d00-4000-8000-{:012x}","controller":true,"blockOwnerDeletion":true}}]}}"#,
            n % 40,
            own_image + (n << 32) + revision + 1,
            PROXY,
            1_700_000_000 + revision,
            (cluster << 36) + (n << 24) + revision,
        )
        .unwrap();
    }
    json
}

/// Report of the same number of pods of each artifact, about 400 bytes each.
pub(super) fn report(artifacts: impl IntoIterator<Item = u64>, pods_each: usize) -> Vec<u8> {
    let mut json = r#"{"type":"K8S","artifacts":["#.to_owned();
    let pods = artifacts.into_iter().flat_map(|artifact| (0..pods_each).map(move |pod| (artifact, pod)));
    for (n, (artifact, pod)) in pods.enumerate() {
        let comma = if n == 0 { "" } else { "," };
        write!(
            json,
            r#"{comma}{{"podName":"service-{artifact:07}-{pod}","namespace":"team-{:04}","digests":{{"registry.example.com/acme/service-{artifact:07}:1.0.0":"{}"}},"creationTimestamp":1700000000,"owners":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"service-{artifact:07}","uid":"6d5f8b7c-9d00-4000-8000-{artifact:012x}","controller":true,"blockOwnerDeletion":true}}]}}"#,
            artifact / 40,
            digest(artifact),
        )
        .unwrap();
    }
    json.push_str("]}");
    json.into_bytes()
}

/// `data_json` of an attestation of artifacts, built from one commit of the repository `acme/shop`.
pub(super) fn attestation(name: &str, passes: bool, artifacts: impl IntoIterator<Item = u64>) -> String {
    let artifacts: Vec<String> = artifacts.into_iter().map(digest).collect();
    format!(
        r#"{{"attestation_name":"{name}","target_artifacts":["{}"],"junit_results":[{{"name":"all","total":9,"failures":{},"errors":0}}],"git_commit_info":{{"sha1":"{COMMIT}"}},"repo_info":{{"name":"acme/shop","url":"https://github.com/acme/shop"}}}}"#,
        artifacts.join("\",\""),
        u8::from(!passes),
    )
}

/// Commit of all attestations.
pub(super) const COMMIT: &str = "6f0e2c1d9b8a7f6e5d4c3b2a190817263544536a";

/// Digest of an artifact with this number.
pub(super) fn digest(number: u64) -> String {
    format!("{number:064x}")
}
