//! The K8S artifact: what one pod becomes in a report.

use std::sync::Arc;

use serde::ser::SerializeStruct;
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

impl Artifact {
    /// Compares by `namespace/name`, bytewise: the order of a report, and the order in which the
    /// API server lists. Comparing the two parts one after the other would not do: in `a-b/x` and
    /// `a/x` the hyphen sorts before the slash.
    #[must_use]
    pub fn report_order(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(other.key())
    }

    fn key(&self) -> impl Iterator<Item = u8> {
        self.namespace.bytes().chain(std::iter::once(b'/')).chain(self.pod_name.bytes())
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

impl Serialize for Artifact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut artifact = serializer.serialize_struct("Artifact", 5)?;
        artifact.serialize_field("podName", &*self.pod_name)?;
        artifact.serialize_field("namespace", &*self.namespace)?;
        artifact.serialize_field("digests", &self.workload.digests)?;
        artifact.serialize_field("creationTimestamp", &self.created_at)?;
        artifact.serialize_field("owners", &self.workload.owners)?;
        artifact.end()
    }
}
