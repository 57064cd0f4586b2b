//! Parses and normalizes K8S reports.
//!
//! The service parses a body as [`K8sReport`], which rejects invalid fields by name. [`NormalizedReport`] cannot
//! fail and does not depend on order or duplicates.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

use crate::domain::model::{Digests, Fingerprint, OwnerReference, Timestamp};

/// The body of operation 7 (interface, "K8S report"): `type` may be absent, `owners` may be `null`,
/// and unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct K8sReport<'a> {
    /// Always `K8S`.
    #[serde(rename = "type", default)]
    pub kind: Option<Kind>,
    /// Every pod in the environment.
    #[serde(borrow)]
    pub artifacts: Vec<K8sArtifact<'a>>,
}

/// The only type of this report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub enum Kind {
    /// Pods of a Kubernetes cluster.
    K8S,
}

/// One pod of a report.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct K8sArtifact<'a> {
    /// The pod's name.
    #[serde(borrow)]
    pub pod_name: Name<'a>,
    /// Its namespace.
    #[serde(borrow)]
    pub namespace: Name<'a>,
    /// Image names and their digests.
    #[serde(borrow)]
    pub digests: ImageDigests<'a>,
    /// When the pod was created.
    pub creation_timestamp: Timestamp,
    /// Its owner references.
    #[cfg_attr(feature = "service", schema(value_type = Option<Vec<OwnerReference>>))]
    pub owners: Option<Owners>,
}

/// Name of a pod or namespace: 1 to 255 bytes without control characters. More lenient than Kubernetes, so that one
/// unusual name does not invalidate a report.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name<'a>(Cow<'a, str>);

/// Image names and their digests, in the order of the body.
#[derive(Debug)]
pub struct ImageDigests<'a>(Vec<(Cow<'a, str>, Fingerprint)>);

/// Owner references as canonical JSON, in their order. Parsed values would take many times the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners(Box<str>);

/// Images and owners of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Image names and their digests.
    pub digests: Digests,
    /// The owner references.
    pub owners: Owners,
}

/// A report in normal form: equivalent bodies have equal values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalizedReport {
    /// The pods, in order and each once.
    pub pods: Vec<Pod>,
    /// The workloads of the pods by hash.
    pub workloads: BTreeMap<Fingerprint, Workload>,
    /// The hash of the whole report.
    pub hash: Fingerprint,
}

/// A pod: its identity and workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Creation time. Distinguishes pods with the same name.
    pub created_at: Timestamp,
    /// The hash of its digests and owners.
    pub workload: Fingerprint,
}

/// An artifact in the pods of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodArtifact<'a> {
    /// The first of its names.
    pub name: &'a str,
    /// Its number of pods.
    pub pods: i64,
    /// The namespaces of its pods, in order.
    pub namespaces: Vec<&'a str>,
}

impl K8sArtifact<'_> {
    /// The identity of the pod.
    fn key(&self) -> (&Name<'_>, &Name<'_>, Timestamp) {
        (&self.namespace, &self.pod_name, self.creation_timestamp)
    }
}

impl NormalizedReport {
    /// Normalizes a report. Duplicates of a pod are merged into one pod with all digests.
    #[must_use]
    pub fn new(report: K8sReport<'_>) -> Self {
        let mut artifacts = report.artifacts;
        // Stable, so that the first duplicate stays first. Reports from clusters are nearly sorted.
        artifacts.sort_by(|one, other| one.key().cmp(&other.key()));
        let mut pods: Vec<(Name<'_>, Name<'_>, Timestamp, Workload)> = Vec::with_capacity(artifacts.len());
        let mut artifacts = artifacts.into_iter().peekable();
        while let Some(mut artifact) = artifacts.next() {
            let mut owners = artifact.owners.take();
            let mut digests = std::mem::take(&mut artifact.digests.0);
            let own_digests = digests.len();
            while let Some(duplicate) = artifacts.next_if(|next| next.key() == artifact.key()) {
                owners = owners.or(duplicate.owners);
                digests.extend(duplicate.digests.0);
            }
            let is_unique = digests.len() == own_digests;
            let images = digests.into_iter();
            // Image names are unique within one entry.
            let digests = if is_unique {
                images.map(|(name, digest)| (name.into(), digest)).collect()
            } else {
                Digests::from_images(images.map(|(name, digest)| (name.into_owned(), digest)).collect())
            };
            let workload = Workload { digests, owners: owners.unwrap_or_default() };
            pods.push((artifact.namespace, artifact.pod_name, artifact.creation_timestamp, workload));
        }
        let mut workloads: BTreeMap<Fingerprint, Workload> = BTreeMap::new();
        let mut last: Option<Fingerprint> = None;
        let mut canonical = Vec::new();
        let mut whole = Sha256::new();
        let pods = pods
            .into_iter()
            .map(|(Name(namespace), Name(name), created_at, workload)| {
                // The pods of one owner are adjacent and have the same workload, which is hashed once.
                let known = last.filter(|hash| workloads.get(hash) == Some(&workload));
                let hash = known.unwrap_or_else(|| hash_workload(&workload, &mut canonical));
                last = Some(hash);
                for part in [namespace.as_bytes(), name.as_bytes()] {
                    // Names contain no control character, so a zero byte terminates them.
                    whole.update(part);
                    whole.update([0]);
                }
                whole.update(created_at.micros().to_be_bytes());
                whole.update(hash.bytes());
                if known.is_none() {
                    workloads.entry(hash).or_insert(workload);
                }
                Pod { namespace: namespace.into(), name: name.into(), created_at, workload: hash }
            })
            .collect();
        Self { pods, workloads, hash: Fingerprint::from(<[u8; 32]>::from(whole.finalize())) }
    }

    /// The running artifacts.
    #[must_use]
    pub fn artifacts(&self) -> BTreeMap<Fingerprint, PodArtifact<'_>> {
        let mut pods: BTreeMap<&Fingerprint, (i64, Vec<&str>)> = BTreeMap::new();
        for pod in &self.pods {
            let (number, namespaces) = pods.entry(&pod.workload).or_default();
            *number += 1;
            // Pods are in the order of their namespaces.
            if namespaces.last() != Some(&&*pod.namespace) {
                namespaces.push(&pod.namespace);
            }
        }
        let mut artifacts: BTreeMap<Fingerprint, PodArtifact<'_>> = BTreeMap::new();
        for (hash, workload) in &self.workloads {
            let mut once: BTreeMap<Fingerprint, &str> = BTreeMap::new();
            for (name, fingerprint) in workload.digests.iter() {
                let known = once.entry(fingerprint).or_insert(name);
                *known = name.min(*known);
            }
            let Some((pods, namespaces)) = pods.get(hash) else { continue };
            for (fingerprint, name) in once {
                let empty = PodArtifact { name, pods: 0, namespaces: Vec::new() };
                let known = artifacts.entry(fingerprint).or_insert(empty);
                known.name = name.min(known.name);
                known.pods += pods;
                known.namespaces.extend_from_slice(namespaces);
            }
        }
        for artifact in artifacts.values_mut() {
            artifact.namespaces.sort_unstable();
            artifact.namespaces.dedup();
        }
        artifacts
    }
}

/// The hash of a workload's canonical JSON. The buffer is reused between calls.
fn hash_workload(workload: &Workload, buffer: &mut Vec<u8>) -> Fingerprint {
    buffer.clear();
    buffer.extend_from_slice(br#"{"digests":"#);
    // Cannot fail: the values are serializable, and the writer is a buffer.
    let _ = serde_json::to_writer(&mut *buffer, &workload.digests);
    buffer.extend_from_slice(br#","owners":"#);
    buffer.extend_from_slice(workload.owners.as_str().as_bytes());
    buffer.push(b'}');
    Fingerprint::from_content(buffer)
}

impl Owners {
    /// The JSON list.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Owners {
    fn default() -> Self {
        Self("[]".into())
    }
}

impl<'de> Deserialize<'de> for Owners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Owners;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence of owner references")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Owners, A::Error> {
                let mut json = String::from("[");
                while let Some(owner) = list.next_element::<OwnerReference>()? {
                    if json.len() > 1 {
                        json.push(',');
                    }
                    json.push_str(&serde_json::to_string(&owner).map_err(Error::custom)?);
                }
                json.push(']');
                Ok(Owners(json.into()))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = borrowed(deserializer)?;
        if !(1..=255).contains(&name.len()) {
            return Err(Error::custom(format!("expected 1 to 255 bytes, got {}", name.len())));
        }
        if name.chars().any(char::is_control) {
            return Err(Error::custom("expected a name without control characters"));
        }
        Ok(Self(name))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ImageDigests<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = ImageDigests<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of image names and SHA-256 digests")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs: Vec<(Cow<'de, str>, Fingerprint)> = Vec::new();
                while let Some(ImageName(name)) = map.next_key()? {
                    pairs.push((name, map.next_value()?));
                }
                pairs.sort_unstable();
                let mut neighbours = pairs.iter().zip(pairs.iter().skip(1));
                if let Some(((name, _), _)) = neighbours.find(|(one, next)| one.0 == next.0) {
                    return Err(Error::custom(format!("duplicate image {name:?}")));
                }
                Ok(ImageDigests(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// An image name: any text without NUL, which PostgreSQL cannot store.
struct ImageName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for ImageName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = borrowed(deserializer)?;
        if name.is_empty() || name.contains('\0') {
            return Err(Error::custom(format!("expected an image name without NUL, got {name:?}")));
        }
        Ok(Self(name))
    }
}

/// Borrows a string from the body, unless it has escapes.
fn borrowed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    struct Borrow;
    impl<'de> Visitor<'de> for Borrow {
        type Value = Cow<'de, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    }
    deserializer.deserialize_str(Borrow)
}

#[cfg(test)]
mod tests;
