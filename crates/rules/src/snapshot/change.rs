//! Compares a report with the stored running pods and artifacts.
//!
//! Called by the service's report operation. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;

use super::report::{NormalizedReport, Pod};
use crate::environment_status::{ReportedArtifact, ReportedArtifacts, RunningArtifact};
use model::Fingerprint;

/// Changes of pods. A pod with another workload counts as ended and started.
#[derive(Debug, PartialEq, Eq)]
pub struct PodChanges<'a, R> {
    pub ended: Vec<R>,
    pub started: Vec<&'a Pod>,
}

/// Changes of artifacts by fingerprint. A moved tag alone ends and starts no artifact.
#[derive(Debug, PartialEq, Eq)]
pub struct ArtifactChanges<'a> {
    pub ended: BTreeSet<Fingerprint>,
    pub started: BTreeMap<Fingerprint, &'a ReportedArtifact>,
    /// Artifacts with another name, number of pods or namespaces.
    pub changed: BTreeMap<Fingerprint, &'a ReportedArtifact>,
}

/// Compares pods. Each stored running pod has the store's reference to it.
#[must_use]
pub fn compare_pods<R: Ord, S: BuildHasher>(
    mut running: HashMap<Pod, R, S>,
    reported: &NormalizedReport,
) -> PodChanges<'_, R> {
    let started = reported.pods.iter().filter(|pod| running.remove(pod).is_none()).collect();
    let mut ended: Vec<R> = running.into_values().collect();
    ended.sort_unstable();
    PodChanges { ended, started }
}

#[must_use]
pub fn compare_artifacts<'a>(
    running: &BTreeMap<Fingerprint, RunningArtifact>,
    reported: &'a ReportedArtifacts,
) -> ArtifactChanges<'a> {
    let ended = running.keys().filter(|artifact| !reported.contains_key(artifact)).copied().collect();
    let (mut started, mut changed) = (BTreeMap::new(), BTreeMap::new());
    for (artifact, is) in reported {
        match running.get(artifact) {
            None => started.insert(*artifact, is),
            Some(was) if was.reported != *is => changed.insert(*artifact, is),
            Some(_) => None,
        };
    }
    ArtifactChanges { ended, started, changed }
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
    use crate::environment_status::Verdict;

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
        let running: HashMap<_, _> = before.pods.iter().cloned().zip(0..).collect();
        let running_artifact =
            |(fingerprint, reported)| (fingerprint, RunningArtifact { reported, verdict: Verdict::UNKNOWN });
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
