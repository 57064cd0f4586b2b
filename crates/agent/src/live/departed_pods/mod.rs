//! Departed pods: pods that ended before any accepted report contained them.
//!
//! Each environment in `agent` has one [`DepartedPods`]. It receives every departure and every accepted
//! report, and returns the artifacts that the next report includes besides the running pods. The cadence
//! decides when that report is sent.
//!
//! An accepted report of revision *r* contained every pod in the set at *r*. A departure from a namespace that the
//! environment selected later counts from `LiveSet::selected_since`.

mod backlog;

use std::collections::HashMap;
use std::sync::Arc;

use self::backlog::{Backlog, DepartedPod};
use super::departure::{Departure, Revision};
use model::{Artifact, Workload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    Running,
    /// Running pods, and all departed pods at the time of composition.
    RunningAndDeparted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Above this number, pods are deduplicated by namespace, owners and digests.
    pub max_individual: usize,
    /// Above this number, the oldest pods of the largest namespace are dropped.
    pub max_pods: usize,
    /// Above this size in bytes, the oldest pods of the largest namespace are dropped.
    pub max_bytes: usize,
}

/// The departed pods of one environment.
///
/// Invariant: a report of revision R contains every pod with `since <= R` that had not departed by then, as a
/// running pod. It contains the others as departed pods, if its [`Contents`] include those. Comparing the
/// pod's revisions with the accepted one is therefore enough, whether it departed before the report was
/// composed, while it was in flight, or later.
#[derive(Debug, Clone, Default)]
pub struct DepartedPods {
    limits: Limits,
    pods: Backlog,
    /// Number of inserted pods; identifies a pod in `pods`.
    inserted: u64,
    /// While deduplicating: the pod that represents each group.
    representatives: Option<HashMap<Group, u64>>,
    accepted: Revision,
    counts: Counts,
}

/// Pods that were not kept, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pods represented by another pod with the same namespace, owners and digests.
    pub deduplicated: u64,
    /// Pods dropped at a limit.
    pub dropped: u64,
}

/// Pods of one namespace with the same owners and digests.
type Group = (Arc<str>, Arc<Workload>);

impl Default for Limits {
    fn default() -> Self {
        Self { max_individual: 1_000, max_pods: 10_000, max_bytes: 16 * 1024 * 1024 }
    }
}

impl DepartedPods {
    /// For an environment that has not reported.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Records a departure, unless an accepted report contained the pod. `departed_at` is the first revision
    /// without the pod; no report of that revision or a later one may have been composed before this call.
    pub fn insert(&mut self, departure: Departure, departed_at: Revision) {
        let Departure { artifact, since } = departure;
        if since <= self.accepted {
            return;
        }
        let number = self.inserted;
        self.inserted += 1;
        let new = DepartedPod { artifact, since, departed_at };
        match &mut self.representatives {
            None => {
                self.pods.insert(number, new);
                if self.pods.len() > self.limits.max_individual {
                    self.deduplicate();
                }
            }
            Some(representatives) => {
                Self::insert_representative(&mut self.pods, representatives, number, new, &mut self.counts);
            }
        }
        while self.pods.len() > self.limits.max_pods || self.pods.size() > self.limits.max_bytes {
            let Some((number, oldest)) = self.pods.evict() else { break };
            self.counts.dropped += 1;
            if let Some(representatives) = &mut self.representatives {
                let group = group(&oldest);
                if representatives.get(&group) == Some(&number) {
                    representatives.remove(&group);
                }
            }
        }
    }

    /// Counts a departed pod that was dropped before it was recorded here.
    pub fn record_dropped(&mut self) {
        self.counts.dropped += 1;
    }

    /// Removes the pods that an accepted report of this revision contained.
    pub fn report_accepted(&mut self, revision: Revision, contents: Contents) {
        self.accepted = self.accepted.max(revision);
        // A pod that departed after the composition was contained as a running pod.
        let is_reported = |pod: &DepartedPod| {
            pod.since <= revision && (contents == Contents::RunningAndDeparted || revision < pod.departed_at)
        };
        self.pods.retain(|pod| !is_reported(pod));
        if contents == Contents::RunningAndDeparted && self.pods.len() <= self.limits.max_individual {
            self.representatives = None;
        } else if let Some(representatives) = &mut self.representatives {
            representatives.retain(|(namespace, _), number| self.pods.get(namespace, *number).is_some());
        }
    }

    /// The departed pods of the next report, in report order; pods with the same name in order of creation.
    #[must_use]
    pub fn artifacts(&self) -> Vec<Artifact> {
        let mut pods: Vec<_> = self.pods.iter().map(|(_, pod)| pod).collect();
        pods.sort_by(|a, b| {
            let age = || (a.artifact.created_at, a.since).cmp(&(b.artifact.created_at, b.since));
            a.artifact.view().report_order(&b.artifact.view()).then_with(age)
        });
        pods.into_iter().map(|pod| pod.artifact.clone()).collect()
    }

    /// Number of departed pods in the next report.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether the next report contains no departed pods.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.len() == 0
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Starts to keep one pod per group.
    fn deduplicate(&mut self) {
        let mut representatives = HashMap::new();
        let mut pods = Backlog::default();
        for (number, new) in std::mem::take(&mut self.pods).iter() {
            Self::insert_representative(
                &mut pods,
                &mut representatives,
                number,
                new.clone(),
                &mut self.counts,
            );
        }
        self.pods = pods;
        self.representatives = Some(representatives);
    }

    /// Keeps the pod of a group that started last. With an earlier one, an accepted report that was composed
    /// before the later pod started would remove the whole group.
    fn insert_representative(
        pods: &mut Backlog,
        representatives: &mut HashMap<Group, u64>,
        number: u64,
        new: DepartedPod,
        counts: &mut Counts,
    ) {
        let group = group(&new);
        if let Some(old) = representatives.get(&group) {
            counts.deduplicated += 1;
            if pods.get(&group.0, *old).is_some_and(|old| old.since > new.since) {
                return;
            }
            pods.remove(&group.0, *old);
        }
        representatives.insert(group, number);
        pods.insert(number, new);
    }
}

fn group(pod: &DepartedPod) -> Group {
    (Arc::clone(&pod.artifact.namespace), Arc::clone(&pod.artifact.workload))
}

#[cfg(test)]
mod tests;
