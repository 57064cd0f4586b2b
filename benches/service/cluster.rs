//! Reports of a fake cluster.

use std::fmt::Write as _;

/// Pods per deployment.
const REPLICAS: usize = 25;

/// A cluster as JSON of its deployments.
pub(super) struct Cluster {
    deployments: Vec<String>,
    rollouts: usize,
}

impl Cluster {
    pub(super) fn new(pods: usize) -> Self {
        Self { deployments: (0..pods / REPLICAS).map(|n| deployment(n, 0)).collect(), rollouts: 0 }
    }

    /// Replaces the image and the pods of the next deployment.
    pub(super) fn roll_out(&mut self) {
        self.rollouts += 1;
        let n = self.rollouts % self.deployments.len();
        self.deployments[n] = deployment(n, self.rollouts);
    }

    pub(super) fn body(&self) -> Vec<u8> {
        format!(r#"{{"type":"K8S","artifacts":[{}]}}"#, self.deployments.join(",")).into_bytes()
    }
}

/// JSON of the pods of a deployment's revision, about 550 bytes each.
fn deployment(n: usize, revision: usize) -> String {
    let mut json = String::new();
    for replica in 0..REPLICAS {
        let namespace = format!("team-{:04}", n / 40);
        let owner = format!("service-{:02}-{:010x}", n % 40, n * 1_000_003 + revision);
        let comma = if replica == 0 { "" } else { "," };
        write!(
            json,
            r#"{comma}{{"podName":"{owner}-{replica:05x}","namespace":"{namespace}","digests":{{"registry.example.com/{namespace}/service-{:02}:1.{revision}.0":"{:064x}","registry.example.com/mesh/proxy:2.14.1":"{:064x}"}},"creationTimestamp":{},"owners":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{owner}","uid":"6d5f8b7c-9d00-4000-8000-{:012x}","controller":true,"blockOwnerDeletion":true}}]}}"#,
            n % 40,
            (n << 32) + revision + 1,
            1_u64 << 60,
            1_700_000_000 + revision,
            (n << 24) + revision,
        )
        .unwrap();
    }
    json
}
