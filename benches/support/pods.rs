//! Deterministic pods of all benches.

use agent::live::pod::{ContainerView, PodView};
use model::OwnerReference;

/// Creation time of every pod, in Unix time.
pub(crate) const CREATED: i64 = 1_795_257_028;

/// Deployments of a namespace.
pub(crate) const IN_NAMESPACE: usize = 40;

/// Sorted, as an API server lists them.
const SERVICES: [&str; 8] =
    ["basket", "checkout", "inventory", "payments", "recommendations", "search", "sessions", "users"];

/// Letters of generated names in Kubernetes, sorted.
const LETTERS: &[u8; 27] = b"2456789bcdfghjklmnpqrstvwxz";

/// A `ReplicaSet`, with a container for each image.
pub(crate) struct ReplicaSet {
    pub(crate) namespace: String,
    /// Name of its deployment.
    pub(crate) app: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) images: Vec<Image>,
    pub(crate) deployment: usize,
    revision: usize,
}

pub(crate) struct Image {
    pub(crate) reference: String,
    pub(crate) id: String,
}

/// Digest of an artifact with this number.
pub(crate) fn digest(artifact: u64) -> String {
    format!("{artifact:064x}")
}

impl ReplicaSet {
    /// A revision of the `n`th deployment of a cluster, which runs these artifacts.
    pub(crate) fn new(deployment: usize, revision: usize, artifacts: &[u64]) -> Self {
        let n = deployment % IN_NAMESPACE;
        let app = format!("{}-{n:02}", SERVICES[n * SERVICES.len() / IN_NAMESPACE]);
        let images = artifacts.iter().map(|artifact| {
            let repository = format!("registry.example.com/acme/service-{artifact:x}");
            let id = format!("{repository}@sha256:{}", digest(*artifact));
            Image { reference: format!("{repository}:1.27.3"), id }
        });
        Self {
            namespace: format!("team-{:04}", deployment / IN_NAMESPACE),
            name: format!("{app}-{revision:010x}"),
            app,
            uid: format!("{deployment:08x}-7f3e-4c9a-9f00-{revision:012x}"),
            images: images.collect(),
            deployment,
            revision,
        }
    }

    /// Name of the `n`th pod.
    pub(crate) fn pod_name(&self, n: usize) -> String {
        let mut name = format!("{}-", self.name);
        let spread = n * 200_003 % 27_usize.pow(5);
        name.extend((0..5).rev().map(|place| char::from(LETTERS[spread / 27_usize.pow(place) % 27])));
        name
    }

    /// UID of the `n`th pod.
    pub(crate) fn pod_uid(&self, n: usize) -> String {
        format!("{:08x}-5a6b-4c2e-9f00-{:012x}", self.deployment, self.revision * 64 + n)
    }

    /// The `n`th pod as the agent reads it.
    pub(crate) fn pod(&self, n: usize) -> PodView {
        let containers = self.images.iter().enumerate().map(|(n, image)| ContainerView {
            name: format!("container-{n}"),
            spec_image: image.reference.clone(),
            image: image.reference.clone(),
            image_id: image.id.clone(),
            ..ContainerView::default()
        });
        PodView {
            namespace: self.namespace.clone(),
            name: self.pod_name(n),
            uid: self.pod_uid(n),
            created_at: Some(CREATED),
            owners: vec![OwnerReference {
                api_version: Some("apps/v1".into()),
                kind: Some("ReplicaSet".into()),
                name: Some(self.name.as_str().into()),
                uid: Some(self.uid.as_str().into()),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }],
            containers: containers.collect(),
            ..PodView::default()
        }
    }
}
