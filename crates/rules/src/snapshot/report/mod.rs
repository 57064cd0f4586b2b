//! Parses and normalizes K8S reports.
//!
//! [`NormalizedReport`] does not depend on order or duplicates. Pods of one owner usually follow each other with the same
//! text of digests and owners, which is parsed once. The service parses a rejected body again as [`K8sReport`], to find the
//! path of the invalid field.

#[cfg(feature = "openapi")]
mod openapi;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::environment_status::{ReportedArtifact, ReportedArtifacts};
use model::escape::needs_escape;
use model::{Digests, Fingerprint, OwnerReference, Timestamp};

/// The body of operation 7 (interface, "K8S report"): `type` may be absent, `owners` may be `null`,
/// and unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Kind {
    /// Pods of a Kubernetes cluster.
    K8S,
}

/// One pod of a report.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<OwnerReference>>))]
    pub owners: Option<Owners>,
}

/// Name of a pod or namespace: 1 to 255 bytes without control or invisible characters. More lenient than Kubernetes, so that one
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
    pub digests: Digests,
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
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// Creation time. Distinguishes pods with the same name.
    pub created_at: Timestamp,
    /// The hash of its digests and owners.
    pub workload: Fingerprint,
}

/// A report whose digests and owners are parsed later.
#[derive(Deserialize)]
struct RawReport<'a> {
    #[serde(rename = "type")]
    _kind: Option<Kind>,
    #[serde(borrow)]
    artifacts: Vec<RawArtifact<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawArtifact<'a> {
    #[serde(borrow)]
    pod_name: Name<'a>,
    #[serde(borrow)]
    namespace: Name<'a>,
    #[serde(borrow)]
    digests: &'a RawValue,
    creation_timestamp: Timestamp,
    #[serde(borrow)]
    owners: Option<&'a RawValue>,
}

impl<'a> RawArtifact<'a> {
    /// The identity of the pod.
    fn key(&self) -> (&Name<'a>, &Name<'a>, Timestamp) {
        (&self.namespace, &self.pod_name, self.creation_timestamp)
    }

    /// The text of digests and owners. Pods without duplicates that have equal texts have equal workloads.
    fn workload(&self) -> (&'a str, Option<&'a str>) {
        (self.digests.get(), self.owners.map(RawValue::get))
    }

    fn digests(&self) -> serde_json::Result<Vec<(Cow<'a, str>, Fingerprint)>> {
        serde_json::from_str(self.digests.get()).map(|ImageDigests(pairs)| pairs)
    }

    fn owners(&self) -> serde_json::Result<Option<Owners>> {
        self.owners.map(|owners| serde_json::from_str(owners.get())).transpose()
    }

    /// The workload of this pod and its duplicates.
    fn merged_workload(&self, duplicates: &[Self]) -> serde_json::Result<Workload> {
        let (mut digests, mut owners) = (self.digests()?, self.owners()?);
        for duplicate in duplicates {
            digests.extend(duplicate.digests()?);
            owners = owners.or(duplicate.owners()?);
        }
        let images = digests.into_iter();
        // Image names are unique within one entry.
        let digests = if duplicates.is_empty() {
            images.map(|(name, digest)| (name.into(), digest)).collect()
        } else {
            Digests::from_images(images.map(|(name, digest)| (name.into_owned(), digest)).collect())
        };
        Ok(Workload { digests, owners: owners.unwrap_or_default() })
    }
}

impl NormalizedReport {
    /// Parses and normalizes a report. Duplicates of a pod are merged into one pod with all digests.
    ///
    /// # Errors
    ///
    /// If the body is not a valid [`K8sReport`], or an ignored value of an owner is not UTF-8. The error has no path.
    pub fn parse(body: &[u8]) -> serde_json::Result<Self> {
        let RawReport { mut artifacts, .. } = serde_json::from_slice(body)?;
        // Stable, so that the first duplicate stays first. Reports from clusters are nearly sorted.
        artifacts.sort_by(|one, other| one.key().cmp(&other.key()));
        let mut workloads: BTreeMap<Fingerprint, Workload> = BTreeMap::new();
        let mut pods = Vec::with_capacity(artifacts.len());
        let mut last = None;
        let mut canonical = Vec::new();
        let mut whole = Sha256::new();
        for same in artifacts.chunk_by_mut(|one, next| one.key() == next.key()) {
            let [artifact, duplicates @ ..] = same else { continue };
            let hash = match last {
                Some((text, hash)) if duplicates.is_empty() && text == artifact.workload() => hash,
                _ => {
                    let workload = artifact.merged_workload(duplicates)?;
                    let hash = hash_workload(&workload, &mut canonical);
                    workloads.entry(hash).or_insert(workload);
                    hash
                }
            };
            last = duplicates.is_empty().then(|| (artifact.workload(), hash));
            let names = [&mut artifact.namespace, &mut artifact.pod_name];
            let [namespace, name] = names.map(|Name(name)| std::mem::take(name));
            let created_at = artifact.creation_timestamp;
            for part in [&namespace, &name] {
                // Names contain no control character, so a zero byte terminates them.
                whole.update(part.as_bytes());
                whole.update([0]);
            }
            whole.update(created_at.micros().to_be_bytes());
            whole.update(hash.bytes());
            pods.push(Pod { namespace: namespace.into(), name: name.into(), created_at, workload: hash });
        }
        // Many entries may be duplicates of few pods.
        pods.shrink_to_fit();
        Ok(Self { pods, workloads, hash: Fingerprint::from(<[u8; 32]>::from(whole.finalize())) })
    }

    #[must_use]
    pub fn empty() -> Self {
        Self { pods: Vec::new(), workloads: BTreeMap::new(), hash: Fingerprint::from_content(b"") }
    }

    /// The running artifacts, each under the first of its names.
    #[must_use]
    pub fn artifacts(&self) -> ReportedArtifacts {
        let mut pods: BTreeMap<&Fingerprint, (i64, Vec<&str>)> = BTreeMap::new();
        for pod in &self.pods {
            let (number, namespaces) = pods.entry(&pod.workload).or_default();
            *number += 1;
            // Pods are in the order of their namespaces.
            if namespaces.last() != Some(&&*pod.namespace) {
                namespaces.push(&pod.namespace);
            }
        }
        let mut artifacts: BTreeMap<Fingerprint, (&str, i64, Vec<&str>)> = BTreeMap::new();
        for (hash, workload) in &self.workloads {
            let mut once: BTreeMap<Fingerprint, &str> = BTreeMap::new();
            for (name, fingerprint) in workload.digests.iter() {
                let known = once.entry(fingerprint).or_insert(name);
                *known = name.min(*known);
            }
            let Some((pods, namespaces)) = pods.get(hash) else { continue };
            for (fingerprint, name) in once {
                let (first, total, all) = artifacts.entry(fingerprint).or_insert((name, 0, Vec::new()));
                *first = name.min(*first);
                *total += pods;
                all.extend_from_slice(namespaces);
            }
        }
        let reported = |(fingerprint, (name, pods, mut namespaces)): (_, (&str, _, Vec<&str>))| {
            namespaces.sort_unstable();
            namespaces.dedup();
            let namespaces = namespaces.into_iter().map(str::to_owned).collect();
            (fingerprint, ReportedArtifact { name: name.to_owned(), pods, namespaces })
        };
        artifacts.into_iter().map(reported).collect()
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
        let Borrowed(name) = Borrowed::deserialize(deserializer)?;
        if !(1..=255).contains(&name.len()) {
            return Err(Error::custom(format!("expected 1 to 255 bytes, got {}", name.len())));
        }
        if name.contains(needs_escape) {
            return Err(Error::custom("expected a name without control or invisible characters"));
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
                let mut neighbors = pairs.iter().zip(pairs.iter().skip(1));
                if let Some(((name, _), _)) = neighbors.find(|(one, next)| one.0 == next.0) {
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
        let Borrowed(name) = Borrowed::deserialize(deserializer)?;
        if name.is_empty() || name.contains('\0') {
            return Err(Error::custom(format!("expected an image name without NUL, got {name:?}")));
        }
        Ok(Self(name))
    }
}

/// A string that is borrowed from the body, unless it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests;
