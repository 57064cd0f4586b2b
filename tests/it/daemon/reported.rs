//! A pod as a report, a database or a cluster has it, so that they can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// A pod and what it runs: image name to digest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reported {
    pub namespace: String,
    pub name: String,
    /// In seconds of Unix time; it tells a pod from the next of its name.
    pub created: i64,
    pub digests: BTreeMap<String, String>,
}

/// Which pod it is, whatever it runs.
pub type Identity = (String, String, i64);

impl Reported {
    pub fn identity(&self) -> Identity {
        (self.namespace.clone(), self.name.clone(), self.created)
    }
}

impl fmt::Debug for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} created {}", self.namespace, self.name, self.created)?;
        for (image, digest) in &self.digests {
            write!(f, ", {image} {}…", digest.get(..6).unwrap_or(digest))?;
        }
        Ok(())
    }
}

/// The pods of a report's body, or what is wrong with it: they have to be sorted, and each is there once.
pub fn pods_of(body: &[u8]) -> Result<BTreeSet<Reported>, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if body["type"] != "K8S" {
        return Err(format!("its type is {}", body["type"]));
    }
    let artifacts = body["artifacts"].as_array().ok_or("it has no artifacts")?;
    let mut pods = BTreeSet::new();
    let mut last = String::new();
    for artifact in artifacts {
        let pod = reported(artifact).ok_or_else(|| format!("{artifact} is no artifact"))?;
        if pod.digests.is_empty() {
            return Err(format!("{pod:?} has no digest"));
        }
        // Two pods of one name may stand beside each other: one that is gone, and the next.
        let key = format!("{}/{}", pod.namespace, pod.name);
        if key < last {
            return Err(format!("{key} stands behind {last}"));
        }
        last = key;
        let said = format!("{pod:?} is there twice");
        if !pods.insert(pod) {
            return Err(said);
        }
    }
    Ok(pods)
}

fn reported(artifact: &Value) -> Option<Reported> {
    artifact["owners"].as_array()?;
    Some(Reported {
        namespace: artifact["namespace"].as_str()?.to_owned(),
        name: artifact["podName"].as_str()?.to_owned(),
        created: artifact["creationTimestamp"].as_i64()?,
        digests: digests(&artifact["digests"])?,
    })
}

/// An object of image names and digests.
pub fn digests(object: &Value) -> Option<BTreeMap<String, String>> {
    let pairs = object.as_object()?.iter();
    pairs.map(|(image, digest)| Some((image.clone(), digest.as_str()?.to_owned()))).collect()
}

/// Both sides, where they differ.
pub fn difference(held: &BTreeSet<Reported>, expected: &BTreeSet<Reported>) -> Option<String> {
    let missing: Vec<_> = expected.difference(held).take(20).collect();
    let too_many: Vec<_> = held.difference(expected).take(20).collect();
    if missing.is_empty() && too_many.is_empty() {
        return None;
    }
    Some(format!(
        "{} held, {} expected; missing: {missing:#?}; too many: {too_many:#?}",
        held.len(),
        expected.len()
    ))
}
