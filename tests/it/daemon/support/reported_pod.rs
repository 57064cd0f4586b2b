//! A pod in a comparable form, from a report, a database or a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// A pod and its digests by image name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportedPod {
    pub namespace: String,
    pub name: String,
    /// Unix seconds. Distinguishes pods of the same name.
    pub created: i64,
    pub digests: BTreeMap<String, String>,
}

/// Namespace, name and creation time.
pub type Identity = (String, String, i64);

impl ReportedPod {
    pub fn identity(&self) -> Identity {
        (self.namespace.clone(), self.name.clone(), self.created)
    }
}

impl fmt::Debug for ReportedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} created {}", self.namespace, self.name, self.created)?;
        for (image, digest) in &self.digests {
            write!(f, ", {image} {}…", digest.get(..6).unwrap_or(digest))?;
        }
        Ok(())
    }
}

/// Parses a report's body. Pods must be sorted and unique.
pub fn pods_of(body: &[u8]) -> Result<BTreeSet<ReportedPod>, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if body["type"] != "K8S" {
        return Err(format!("unexpected type {}", body["type"]));
    }
    let artifacts = body["artifacts"].as_array().ok_or("no artifacts")?;
    let mut pods = BTreeSet::new();
    let mut last = String::new();
    for artifact in artifacts {
        let pod = reported(artifact).ok_or_else(|| format!("not an artifact: {artifact}"))?;
        if pod.digests.is_empty() {
            return Err(format!("{pod:?} has no digest"));
        }
        // A departed pod and its successor may have the same name.
        let key = format!("{}/{}", pod.namespace, pod.name);
        if key < last {
            return Err(format!("{key} follows {last}"));
        }
        last = key;
        let duplicate = format!("{pod:?} is a duplicate");
        if !pods.insert(pod) {
            return Err(duplicate);
        }
    }
    Ok(pods)
}

fn reported(artifact: &Value) -> Option<ReportedPod> {
    artifact["owners"].as_array()?;
    Some(ReportedPod {
        namespace: artifact["namespace"].as_str()?.to_owned(),
        name: artifact["podName"].as_str()?.to_owned(),
        created: artifact["creationTimestamp"].as_i64()?,
        digests: digests(&artifact["digests"])?,
    })
}

/// Parses an object of image names and digests.
pub fn digests(object: &Value) -> Option<BTreeMap<String, String>> {
    let pairs = object.as_object()?.iter();
    pairs.map(|(image, digest)| Some((image.clone(), digest.as_str()?.to_owned()))).collect()
}

/// Describes the difference, if any.
pub fn difference(actual: &BTreeSet<ReportedPod>, expected: &BTreeSet<ReportedPod>) -> Option<String> {
    let missing: Vec<_> = expected.difference(actual).take(20).collect();
    let unexpected: Vec<_> = actual.difference(expected).take(20).collect();
    if missing.is_empty() && unexpected.is_empty() {
        return None;
    }
    Some(format!(
        "expected {} pods, got {}; missing: {missing:#?}; unexpected: {unexpected:#?}",
        expected.len(),
        actual.len()
    ))
}
