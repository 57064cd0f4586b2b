//! What began and what ended between what is held as running and what a report says.

use std::collections::{BTreeMap, BTreeSet};

use super::reported::{Pod, Reported};
use crate::domain::evidence::environment_status;
use crate::domain::model::Fingerprint;

/// A pod that is held as running; `row` is the holder's own reference to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running<R> {
    /// The pod.
    pub pod: Pod,
    /// Where the holder keeps it.
    pub row: R,
}

/// How pods changed. A pod that runs something else now has ended as it was and started as it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Pods<'a, R> {
    /// Those that ended.
    pub ended: Vec<R>,
    /// Those that started.
    pub started: Vec<&'a Pod>,
}

/// How artifacts changed, by fingerprint: a tag that moves is no exit and no start.
#[derive(Debug, PartialEq, Eq)]
pub struct Artifacts<'a> {
    /// Those that run no longer.
    pub ended: BTreeSet<Fingerprint>,
    /// Those that run now and did not: their names, and in how many pods.
    pub started: BTreeMap<Fingerprint, (&'a str, i64)>,
    /// Those that go on under another name, or in another number of pods.
    pub changed: BTreeMap<Fingerprint, (&'a str, i64)>,
}

/// Compares pods, in order on both sides.
#[must_use]
pub fn pods<R>(mut running: Vec<Running<R>>, reported: &Reported) -> Pods<'_, R> {
    running.sort_unstable_by(|one, other| one.pod.cmp(&other.pod));
    let mut held = running.into_iter().peekable();
    let (mut ended, mut started) = (Vec::new(), Vec::new());
    for pod in &reported.pods {
        while let Some(gone) = held.next_if(|held| held.pod < *pod) {
            ended.push(gone.row);
        }
        if held.next_if(|held| held.pod == *pod).is_none() {
            started.push(pod);
        }
    }
    ended.extend(held.map(|gone| gone.row));
    Pods { ended, started }
}

/// Compares artifacts.
#[must_use]
pub fn artifacts<'a>(
    running: &BTreeMap<Fingerprint, environment_status::Running>,
    reported: &'a Reported,
) -> Artifacts<'a> {
    let now = reported.artifacts();
    let ended = running.keys().filter(|artifact| !now.contains_key(artifact)).copied().collect();
    let (known, started): (BTreeMap<_, _>, BTreeMap<_, _>) =
        now.into_iter().partition(|(artifact, _)| running.contains_key(artifact));
    let is_other = |(artifact, (name, pods)): &(Fingerprint, (&str, i64))| {
        running.get(artifact).is_some_and(|was| was.name != *name || was.pods != Some(*pods))
    };
    let changed = known.into_iter().filter(is_other).collect();
    Artifacts { ended, started, changed }
}

impl Artifacts<'_> {
    /// Whether the same artifacts run as before.
    #[must_use]
    pub fn are_the_same(&self) -> bool {
        self.ended.is_empty() && self.started.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::evidence::snapshot::reported::K8sReport;

    fn reported(pods: &[(&str, i64, &str, char)]) -> Reported {
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
        Reported::new(serde_json::from_str::<K8sReport<'_>>(&body).unwrap())
    }

    fn between(before: &[(&str, i64, &str, char)], after: &[(&str, i64, &str, char)]) -> [usize; 5] {
        let (before, after) = (reported(before), reported(after));
        // In no order, as from a database.
        let running = before.pods.iter().rev().map(|pod| Running { pod: pod.clone(), row: () }).collect();
        let held = |(artifact, (name, pods)): (_, (&str, _))| {
            let verdict = environment_status::Verdict::UNKNOWN;
            (artifact, environment_status::Running { name: name.to_owned(), pods: Some(pods), verdict })
        };
        let held = before.artifacts().into_iter().map(held).collect();
        let (pods, artifacts) = (pods(running, &after), artifacts(&held, &after));
        assert_eq!(artifacts.are_the_same(), artifacts.ended.len() + artifacts.started.len() == 0);
        [
            pods.ended.len(),
            pods.started.len(),
            artifacts.ended.len(),
            artifacts.started.len(),
            artifacts.changed.len(),
        ]
    }

    #[test]
    fn what_began_ended_and_went_on() {
        let web = ("web", 1, "web:1", 'a');
        // Pods ended and started, artifacts ended, started and changed.
        for (before, after, expected) in [
            (&[][..], &[][..], [0, 0, 0, 0, 0]),
            (&[], &[web], [0, 1, 0, 1, 0]),
            (&[web], &[web], [0, 0, 0, 0, 0]),
            (&[web], &[], [1, 0, 1, 0, 0]),
            // Scaled up: pods, but no other artifact.
            (&[web], &[web, ("web2", 2, "web:1", 'a')], [0, 1, 0, 0, 1]),
            // One goes in the middle, one comes at either end.
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
            // A tag that moved on the same image is another name for it.
            (&[web], &[("web", 1, "web:stable", 'a')], [1, 1, 0, 0, 1]),
            // One of two images under one name goes.
            (&[web, ("x", 1, "web:1", 'b')], &[web], [1, 0, 1, 0, 0]),
        ] {
            assert_eq!(between(before, after), expected, "{before:?} -> {after:?}");
        }
    }
}
