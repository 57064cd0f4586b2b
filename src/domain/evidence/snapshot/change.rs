//! Compares a report with the stored running pods and artifacts.
//!
//! Called by the service's report operation. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::report::{NormalizedReport, Pod, PodArtifact};
use crate::domain::evidence::environment_status::RunningArtifact;
use crate::domain::model::Fingerprint;

/// A stored running pod. `row` is the store's reference to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPod<R> {
    /// The pod.
    pub pod: Pod,
    /// The store's reference.
    pub row: R,
}

/// Changes of pods. A pod with another workload counts as ended and started.
#[derive(Debug, PartialEq, Eq)]
pub struct PodChanges<'a, R> {
    /// Ended pods.
    pub ended: Vec<R>,
    /// Started pods.
    pub started: Vec<&'a Pod>,
}

/// Changes of artifacts by fingerprint. A moved tag alone ends and starts no artifact.
#[derive(Debug, PartialEq, Eq)]
pub struct ArtifactChanges<'a> {
    /// Ended artifacts.
    pub ended: BTreeSet<Fingerprint>,
    /// Started artifacts.
    pub started: BTreeMap<Fingerprint, PodArtifact<'a>>,
    /// Artifacts with another name, number of pods or namespaces.
    pub changed: BTreeMap<Fingerprint, PodArtifact<'a>>,
}

/// Compares pods, in order on both sides.
#[must_use]
pub fn compare_pods<R>(mut running: Vec<StoredPod<R>>, reported: &NormalizedReport) -> PodChanges<'_, R> {
    running.sort_unstable_by(|one, other| one.pod.cmp(&other.pod));
    let mut stored = running.into_iter().peekable();
    let (mut ended, mut started) = (Vec::new(), Vec::new());
    for pod in &reported.pods {
        loop {
            match stored.peek().map(|stored| stored.pod.cmp(pod)) {
                Some(Ordering::Less) => ended.extend(stored.next().map(|gone| gone.row)),
                Some(Ordering::Equal) => {
                    stored.next();
                    break;
                }
                Some(Ordering::Greater) | None => {
                    started.push(pod);
                    break;
                }
            }
        }
    }
    ended.extend(stored.map(|gone| gone.row));
    PodChanges { ended, started }
}

/// Compares artifacts.
#[must_use]
pub fn compare_artifacts<'a>(
    running: &BTreeMap<Fingerprint, RunningArtifact>,
    reported: &BTreeMap<Fingerprint, PodArtifact<'a>>,
) -> ArtifactChanges<'a> {
    let ended = running.keys().filter(|artifact| !reported.contains_key(artifact)).copied().collect();
    let (mut started, mut changed) = (BTreeMap::new(), BTreeMap::new());
    for (artifact, is) in reported {
        match running.get(artifact) {
            None => started.insert(*artifact, is.clone()),
            Some(was) if is_changed(was, is) => changed.insert(*artifact, is.clone()),
            Some(_) => None,
        };
    }
    ArtifactChanges { ended, started, changed }
}

fn is_changed(was: &RunningArtifact, is: &PodArtifact<'_>) -> bool {
    let namespaces = was.namespaces.iter().map(String::as_str);
    was.name != is.name || was.pods != is.pods || !namespaces.eq(is.namespaces.iter().copied())
}

impl ArtifactChanges<'_> {
    /// Whether the same artifacts run as before.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.ended.is_empty() && self.started.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::environment_status::Verdict;

    fn reported(pods: &[(&str, i64, &str, char)]) -> NormalizedReport {
        let artifacts: Vec<_> = pods
            .iter()
            .map(|(name, created, image, digest)| {
                serde_json::json!({
                    "podName": name, "namespace": "n", "creationTimestamp": created,
                    "digests": {*image: digest.to_string().repeat(64)},
                })
            })
            .collect();
        let body = serde_json::json!({ "artifacts": artifacts }).to_string();
        NormalizedReport::parse(body.as_bytes()).unwrap()
    }

    fn between(before: &[(&str, i64, &str, char)], after: &[(&str, i64, &str, char)]) -> [usize; 5] {
        let (before, after) = (reported(before), reported(after));
        // Unordered, as from a database.
        let running = before.pods.iter().rev().map(|pod| StoredPod { pod: pod.clone(), row: () }).collect();
        let running_artifact = |(artifact, is): (_, PodArtifact<'_>)| {
            let verdict = Verdict::UNKNOWN;
            let namespaces = is.namespaces.iter().map(|&name| name.to_owned()).collect();
            let (name, pods) = (is.name.to_owned(), is.pods);
            (artifact, RunningArtifact { name, pods, namespaces, verdict })
        };
        let stored = before.artifacts().into_iter().map(running_artifact).collect();
        let now = after.artifacts();
        let (pods, artifacts) = (compare_pods(running, &after), compare_artifacts(&stored, &now));
        assert_eq!(artifacts.is_unchanged(), artifacts.ended.len() + artifacts.started.len() == 0);
        [
            pods.ended.len(),
            pods.started.len(),
            artifacts.ended.len(),
            artifacts.started.len(),
            artifacts.changed.len(),
        ]
    }

    #[test]
    fn ended_started_and_changed_pods_and_artifacts_are_counted() {
        let web = ("web", 1, "web:1", 'a');
        // Pods ended and started, artifacts ended, started and changed.
        for (before, after, expected) in [
            (&[][..], &[][..], [0, 0, 0, 0, 0]),
            (&[], &[web], [0, 1, 0, 1, 0]),
            (&[web], &[web], [0, 0, 0, 0, 0]),
            (&[web], &[], [1, 0, 1, 0, 0]),
            // Scaled up: another pod of the same artifact.
            (&[web], &[web, ("web2", 2, "web:1", 'a')], [0, 1, 0, 0, 1]),
            // One pod ends in the middle, and one starts at either end.
            (
                &[("c", 1, "web:1", 'a'), web, ("x", 1, "web:1", 'a')],
                &[
                    ("a", 1, "web:1", 'a'),
                    ("c", 1, "web:1", 'a'),
                    ("x", 1, "web:1", 'a'),
                    ("z", 1, "web:1", 'a'),
                ],
                [1, 2, 0, 0, 1],
            ),
            // Another pod of the same name.
            (&[web], &[("web", 2, "web:1", 'a')], [1, 1, 0, 0, 0]),
            // A rollout.
            (&[web], &[("web", 2, "web:2", 'b')], [1, 1, 1, 1, 0]),
            // Another tag of the same image is another name.
            (&[web], &[("web", 1, "web:stable", 'a')], [1, 1, 0, 0, 1]),
            // One of two images with one name ends.
            (&[web, ("x", 1, "web:1", 'b')], &[web], [1, 0, 1, 0, 0]),
        ] {
            assert_eq!(between(before, after), expected, "{before:?} -> {after:?}");
        }
    }
}
