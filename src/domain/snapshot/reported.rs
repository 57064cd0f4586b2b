//! A report as it was received, and the one form that it is compared in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

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
            while let Some(again) = artifacts.next_if(|next| next.key() == artifact.key()) {
                owners = owners.or(again.owners);
                digests.extend(again.digests.0);
            }
            let workload = Workload { digests: named_once(digests), owners: owners.unwrap_or_default() };
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

    /// The artifacts that run, each under the first of its names.
    #[must_use]
    pub fn artifacts(&self) -> BTreeMap<Fingerprint, &str> {
        let mut artifacts: BTreeMap<Fingerprint, &str> = BTreeMap::new();
        for (name, fingerprint) in self.workloads.values().flat_map(|workload| workload.digests.iter()) {
            let known = artifacts.entry(fingerprint).or_insert(name);
            *known = name.min(*known);
        }
        artifacts
    }
}

/// Each name once: where one has several digests, each stands under `name@sha256:H`.
fn named_once(mut digests: Vec<(Cow<'_, str>, Fingerprint)>) -> Digests {
    digests.sort_unstable();
    digests.dedup();
    let of_one_name = digests.chunk_by(|one, next| one.0 == next.0);
    let named = of_one_name.flat_map(|of_one| {
        let is_alone = of_one.len() == 1;
        of_one.iter().map(move |(name, digest)| {
            let name = if is_alone { name.to_string() } else { format!("{name}@sha256:{digest}") };
            (name.into_boxed_str(), *digest)
        })
    });
    named.collect()
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
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Reported, String> {
        serde_json::from_str::<K8sReport<'_>>(json).map(Reported::new).map_err(|e| e.to_string())
    }

    fn pod(name: &str, digests: &str) -> String {
        format!(r#"{{"podName":"{name}","namespace":"n","digests":{digests},"creationTimestamp":1}}"#)
    }

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    #[test]
    fn order_spelling_and_absent_parts_make_no_difference() {
        let both = format!(r#"{{"x":"{A}","y":"{B}"}}"#);
        let one = format!(r#"{{"artifacts":[{},{}]}}"#, pod("p", &both), pod("q", "{}"));
        let swapped = format!(r#"{{"y":"{B}","\u0078":"{A}"}}"#);
        let other = format!(
            r#"{{"type":"K8S","artifacts":[{},{}],"version":2}}"#,
            pod("q", "{}").replace(r#""creationTimestamp":1"#, r#""creationTimestamp":1.0,"owners":null"#),
            pod("p", &swapped).replace('}', " }"),
        );
        assert_eq!(read(&one).unwrap(), read(&other).unwrap());
        let empty = read(r#"{"artifacts":[]}"#).unwrap();
        assert_ne!(read(&one).unwrap().hash, empty.hash);
    }

    #[test]
    fn what_runs_under_which_name_makes_a_difference() {
        let report = |name: &str, digests: String| {
            read(&format!(r#"{{"artifacts":[{}]}}"#, pod(name, &digests))).unwrap().hash
        };
        let one = report("p", format!(r#"{{"x":"{A}"}}"#));
        for other in [
            report("q", format!(r#"{{"x":"{A}"}}"#)),
            report("p", format!(r#"{{"x":"{B}"}}"#)),
            report("p", format!(r#"{{"y":"{A}"}}"#)),
            report("p", "{}".to_owned()),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_pod_that_is_there_again_and_again_runs_the_digests_of_all() {
        let pods: Vec<String> =
            (0..5_000).map(|n| pod("p", &format!(r#"{{"x":"{n:064x}","y":"{A}"}}"#))).collect();
        let mut turned = pods.clone();
        turned.reverse();
        let report = |pods: &[String]| read(&format!(r#"{{"artifacts":[{}]}}"#, pods.join(","))).unwrap();
        let reported = report(&pods);
        assert_eq!(reported, report(&turned));
        assert_eq!(reported.pods.len(), 1);
        assert_eq!(reported.artifacts().len(), 5_001);
        let workload = reported.workloads.values().next().unwrap();
        let names: Vec<_> = workload.digests.iter().map(|(name, _)| name).collect();
        assert!(
            names.contains(&"y") && names.contains(&&*format!("x@sha256:{:064x}", 7)),
            "{:?}",
            names.len()
        );
    }

    #[test]
    fn an_artifact_with_several_names_goes_by_the_first() {
        let report = format!(r#"{{"artifacts":[{}]}}"#, pod("p", &format!(r#"{{"y":"{A}","x":"{A}"}}"#)));
        assert_eq!(read(&report).unwrap().artifacts().into_values().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_was_expected() {
        for (body, expected) in [
            (r#"{"artifacts":{}}"#.to_owned(), "expected a sequence"),
            (r#"{"type":"K8S"}"#.to_owned(), "missing field `artifacts`"),
            (r#"{"type":"ECS","artifacts":[]}"#.to_owned(), "expected `K8S`"),
            (r#"{"artifacts":[],"artifacts":[]}"#.to_owned(), "duplicate field"),
            (format!(r#"{{"artifacts":[{}]}}"#, pod("", "{}")), "1 to 255"),
            (format!(r#"{{"artifacts":[{}]}}"#, pod("a\\nb", "{}")), "control character"),
            (format!(r#"{{"artifacts":[{}]}}"#, pod("p", r#"{"x":"ABC"}"#)), "64 lowercase hex digits"),
            (format!(r#"{{"artifacts":[{}]}}"#, pod("p", r#"{"":"A"}"#)), "no image name"),
            (
                format!(r#"{{"artifacts":[{}]}}"#, pod("p", &format!(r#"{{"x":"{A}","x":"{A}"}}"#))),
                "there twice",
            ),
            (format!(r#"{{"artifacts":[{}]}}"#, pod("p", "{}").replace(":1}", ":-1}")), "1970 and 9999"),
            (format!(r#"{{"artifacts":[{}]}}"#, pod("p", "{}").replace(":1}", ":NaN}")), "expected value"),
        ] {
            let error = read(&body).unwrap_err();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_order_of_pods_and_digests_does_not_matter(
            pods in proptest::collection::btree_map("[a-c]{1,2}", proptest::collection::btree_set(0_u8..4, 0..4), 0..6),
            seed in 0_usize..24,
        ) {
            let body = |turn: usize| {
                let mut parts: Vec<String> = pods.iter().map(|(name, digests)| {
                    let mut pairs: Vec<String> =
                        digests.iter().map(|n| format!(r#""i{n}":"{}""#, format!("{n:x}").repeat(64))).collect();
                    let by = turn % pairs.len().max(1);
                    pairs.rotate_left(by);
                    pod(name, &format!("{{{}}}", pairs.join(",")))
                }).collect();
                let by = turn % parts.len().max(1);
                parts.rotate_left(by);
                format!(r#"{{"artifacts":[{}]}}"#, parts.join(","))
            };
            proptest::prop_assert_eq!(read(&body(0)).unwrap(), read(&body(seed)).unwrap());
        }
    }
}
