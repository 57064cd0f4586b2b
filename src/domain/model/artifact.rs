//! The K8S artifact: what one pod becomes in a report.

use std::cmp::Ordering;
use std::iter::once;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::Fingerprint;

/// One pod in a report (interface, "K8S report").
///
/// The pods of one `ReplicaSet` differ only in name and time, so what they have in common is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub pod_name: Box<str>,
    /// When the pod was created, in seconds of Unix time.
    pub created_at: i64,
    /// What the pod runs and who owns it.
    pub workload: Arc<Workload>,
}

/// An [`Artifact`] that lies where it is kept: what a walk over the live set hands out.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the fields of Artifact")]
pub struct ArtifactView<'a> {
    pub namespace: &'a Arc<str>,
    pub pod_name: &'a str,
    pub created_at: i64,
    pub workload: &'a Arc<Workload>,
}

/// What the pods of one owner have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Each image's name in full and the digest that runs under it.
    pub digests: Digests,
    /// The owner references, in the order in which Kubernetes keeps them.
    pub owners: Box<[OwnerReference]>,
}

/// Image names and their digests, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digests(Box<[(Box<str>, Fingerprint)]>);

/// One owner of a pod; a field that Kubernetes left out is `None` and stays out of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields of Kubernetes' OwnerReference, under its names")]
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

/// Compares two namespaces as the beginnings of `namespace/name`, bytewise. Their names alone would
/// not do: in `a-b/x` and `a/x` the hyphen sorts before the slash.
#[must_use]
pub fn namespace_order(one: &str, other: &str) -> Ordering {
    one.bytes().chain(once(b'/')).cmp(other.bytes().chain(once(b'/')))
}

impl Artifact {
    /// The same, lent.
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
    /// Compares by `namespace/name`, bytewise: the order of a report, and the order in which the
    /// API server lists. Of two pods that had one name, the older comes first.
    #[must_use]
    pub fn report_order(&self, other: &Self) -> Ordering {
        namespace_order(self.namespace, other.namespace)
            .then_with(|| self.pod_name.cmp(other.pod_name))
            .then_with(|| self.created_at.cmp(&other.created_at))
    }

    /// A copy that outlives what it was lent from.
    #[must_use]
    pub fn to_artifact(&self) -> Artifact {
        Artifact {
            namespace: Arc::clone(self.namespace),
            pod_name: self.pod_name.into(),
            created_at: self.created_at,
            workload: Arc::clone(self.workload),
        }
    }
}

impl Digests {
    /// The pairs of name and digest.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Fingerprint)> {
        self.0.iter().map(|(name, digest)| (&**name, *digest))
    }
}

/// Of pairs with one name, the last is kept.
impl FromIterator<(Box<str>, Fingerprint)> for Digests {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Fingerprint)>>(pairs: I) -> Self {
        let sorted: std::collections::BTreeMap<_, _> = pairs.into_iter().collect();
        Self(sorted.into_iter().collect())
    }
}

impl Serialize for Digests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
