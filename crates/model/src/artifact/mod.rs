//! The K8S artifact: one pod in a report.

pub(crate) mod digests;
pub(crate) mod fingerprint;
pub mod image_id;
pub(crate) mod image_index;
pub(crate) mod live_artifacts;
pub mod owner;
pub(crate) mod reported_artifact;

use std::cmp::Ordering;
use std::iter::once;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Digests;

/// One pod in a report (interface, "K8S report").
///
/// The pods of one `ReplicaSet` differ only in name and time, so they share the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    pub namespace: Arc<str>,
    pub pod_name: Box<str>,
    /// When the pod was created, in seconds of Unix time.
    pub created_at: i64,
    pub workload: Arc<Workload>,
}

/// A borrowed [`Artifact`], as iterating over the live set yields it.
#[derive(Debug, Clone, Copy)]
pub struct ArtifactView<'a> {
    pub namespace: &'a Arc<str>,
    pub pod_name: &'a str,
    pub created_at: i64,
    pub workload: &'a Arc<Workload>,
}

/// The common part of the pods of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Full image names and their digests.
    pub digests: Digests,
    /// The owner references, in Kubernetes' order.
    pub owners: Box<[OwnerReference]>,
    /// Whether an annotation excludes the pods, in environments that permit it.
    pub is_excluded: bool,
}

/// One owner of a pod. A field that Kubernetes omits is `None` and is omitted from the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// Compares two namespaces as prefixes of `namespace/name`, bytewise. Comparing the names alone gives another
/// order: in `a-b/x` and `a/x` the hyphen sorts before the slash.
#[must_use]
pub fn namespace_order(one: &str, other: &str) -> Ordering {
    one.bytes().chain(once(b'/')).cmp(other.bytes().chain(once(b'/')))
}

impl Artifact {
    #[must_use]
    pub fn view(&self) -> ArtifactView<'_> {
        ArtifactView {
            namespace: &self.namespace,
            pod_name: &self.pod_name,
            created_at: self.created_at,
            workload: &self.workload,
        }
    }
}

impl ArtifactView<'_> {
    /// Compares by `namespace/name`, bytewise: the order of a report and of API server lists. The older of two
    /// pods with one name comes first.
    #[must_use]
    pub fn report_order(&self, other: &Self) -> Ordering {
        namespace_order(self.namespace, other.namespace)
            .then_with(|| self.pod_name.cmp(other.pod_name))
            .then_with(|| self.created_at.cmp(&other.created_at))
    }
}
