//! A report as it was received, and the one form that it is compared in.
//!
//! The service reads a body into [`K8sReport`], which refuses what is wrong and names it, and brings it
//! into [`Reported`], which cannot fail: whatever the order of its parts, and however often it names a
//! pod.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

use crate::domain::live::collapse::one_name_one_digest;
use crate::domain::model::{Digests, Fingerprint, OwnerReference, Timestamp};

/// The body of operation 7 (interface, "K8S report"): `type` may be absent, `owners` may be `null`,
/// and fields that the interface does not know are passed over.
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
    /// Image names, and the digest that runs under each.
    #[serde(borrow)]
    pub digests: ImageDigests<'a>,
    /// When the pod was created.
    pub creation_timestamp: Timestamp,
    /// Its owner references.
    #[serde(default)]
    #[cfg_attr(feature = "service", schema(value_type = Option<Vec<OwnerReference>>))]
    pub owners: Option<Owners>,
}

/// A pod's or namespace's name: 1 to 255 bytes without a control character. Kubernetes allows fewer
/// characters, but one odd name must not cost a whole report.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name<'a>(Cow<'a, str>);

/// Image names and their digests, in the order of the body.
#[derive(Debug)]
pub struct ImageDigests<'a>(Vec<(Cow<'a, str>, Fingerprint)>);

/// Owner references as canonical JSON, in their order: as values they take many times what they take in
/// a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners(Box<str>);

/// What a pod runs and who owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Each image's name and the digest that runs under it.
    pub digests: Digests,
    /// Its owner references.
    pub owners: Owners,
}

/// What a report says, in one form: two bodies that say the same give equal values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The pods, in order and each once.
    pub pods: Vec<Pod>,
    /// What they run, by hash.
    pub workloads: BTreeMap<Fingerprint, Workload>,
    /// The hash of all of it.
    pub hash: Fingerprint,
}

/// A pod, by what identifies it and what it runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// When it was created: another pod of the same name has another time.
    pub created_at: Timestamp,
    /// The hash of its digests and owners.
    pub workload: Fingerprint,
}

impl K8sArtifact<'_> {
    /// What tells pods apart.
    fn key(&self) -> (&Name<'_>, &Name<'_>, Timestamp) {
        (&self.namespace, &self.pod_name, self.creation_timestamp)
    }
}

impl Reported {
    /// The one form of a report. A pod that it names twice is one pod that runs the digests of both.
    #[must_use]
    pub fn new(report: K8sReport<'_>) -> Self {
        let mut artifacts = report.artifacts;
        // Nearly sorted as it comes from a cluster; stable, so that of what a pod is said to be twice
        // the first stays first.
        artifacts.sort_by(|one, other| one.key().cmp(&other.key()));
        let mut pods: Vec<(Name<'_>, Name<'_>, Timestamp, Workload)> = Vec::with_capacity(artifacts.len());
        let mut artifacts = artifacts.into_iter().peekable();
        while let Some(mut artifact) = artifacts.next() {
            let mut owners = artifact.owners.take();
            let mut digests = std::mem::take(&mut artifact.digests.0);
            let named = digests.len();
            while let Some(again) = artifacts.next_if(|next| next.key() == artifact.key()) {
                owners = owners.or(again.owners);
                digests.extend(again.digests.0);
            }
            let is_said_once = digests.len() == named;
            let images = digests.into_iter();
            // Then it has each name once.
            let digests = if is_said_once {
                images.map(|(name, digest)| (name.into(), digest)).collect()
            } else {
                one_name_one_digest(images.map(|(name, digest)| (name.into_owned(), digest)).collect())
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
                // The pods of one owner lie together and run the same: that is hashed once.
                let known = last.filter(|hash| workloads.get(hash) == Some(&workload));
                let hash = known.unwrap_or_else(|| hash_of(&workload, &mut canonical));
                last = Some(hash);
                for part in [namespace.as_bytes(), name.as_bytes()] {
                    // Names hold no control character, so a zero ends them.
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

    /// The artifacts that run, each under the first of its names, and in how many pods.
    #[must_use]
    pub fn artifacts(&self) -> BTreeMap<Fingerprint, (&str, i64)> {
        let mut pods: BTreeMap<&Fingerprint, i64> = BTreeMap::new();
        for pod in &self.pods {
            *pods.entry(&pod.workload).or_default() += 1;
        }
        let mut artifacts: BTreeMap<Fingerprint, (&str, i64)> = BTreeMap::new();
        for (hash, workload) in &self.workloads {
            let mut once: BTreeMap<Fingerprint, &str> = BTreeMap::new();
            for (name, fingerprint) in workload.digests.iter() {
                let known = once.entry(fingerprint).or_insert(name);
                *known = name.min(*known);
            }
            let pods = pods.get(hash).copied().unwrap_or_default();
            for (fingerprint, name) in once {
                let known = artifacts.entry(fingerprint).or_insert((name, 0));
                *known = (name.min(known.0), known.1 + pods);
            }
        }
        artifacts
    }
}

/// The hash of a workload's canonical JSON, which is written into a buffer that is used again.
fn hash_of(workload: &Workload, buffer: &mut Vec<u8>) -> Fingerprint {
    buffer.clear();
    buffer.extend_from_slice(br#"{"digests":"#);
    // Neither the values nor the writer can fail.
    let _ = serde_json::to_writer(&mut *buffer, &workload.digests);
    buffer.extend_from_slice(br#","owners":"#);
    buffer.extend_from_slice(workload.owners.as_str().as_bytes());
    buffer.push(b'}');
    Fingerprint::of(buffer)
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
            let n = name.len();
            return Err(Error::custom(format!("it takes {n} bytes; 1 to 255 were expected")));
        }
        if name.chars().any(char::is_control) {
            return Err(Error::custom("it holds a control character; a name without one was expected"));
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
                    return Err(Error::custom(format!("the image {name:?} is there twice")));
                }
                Ok(ImageDigests(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// An image's name: whatever the runtime says, but for NUL, which PostgreSQL cannot store.
struct ImageName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for ImageName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = borrowed(deserializer)?;
        if name.is_empty() || name.contains('\0') {
            return Err(Error::custom(format!("{name:?} is no image name; text without NUL was expected")));
        }
        Ok(Self(name))
    }
}

/// A string that stays where it is in the body, unless it has escapes.
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
