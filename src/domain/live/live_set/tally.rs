//! The counts of one environment: what is there, and why part of it is not in the report.
//!
//! A pod's part is added when it comes and taken away when it goes, so that the counts are right
//! without a walk over the set.

use std::collections::BTreeMap;

use crate::domain::live::collapse::{Collapsed, ContainerSkip, PodSkip};

/// Counts of what was seen in an environment's namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pods in any phase.
    pub pods: u64,
    /// Pods that are reported.
    pub artifacts: u64,
    /// Pods left out; a reason without a pod is not in it.
    pub skipped_pods: BTreeMap<PodSkip, u64>,
    /// Containers left out of pods that have started; a reason without a container is not in it.
    pub skipped_containers: BTreeMap<ContainerSkip, u64>,
    /// Containers known by their image's configuration digest alone.
    pub config_digests: u64,
}

impl Tally {
    /// Pods that cannot be read.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.skipped_pods.get(&PodSkip::Unreadable).copied().unwrap_or_default()
    }

    /// Counts a pod that has come.
    pub(crate) fn add(&mut self, pod: &Collapsed) {
        self.pods += 1;
        self.config_digests += pod.config_digests();
        match &pod.workload {
            Ok(_) => self.artifacts += 1,
            Err(why) => *self.skipped_pods.entry(*why).or_default() += 1,
        }
        for (why, n) in &pod.skipped {
            *self.skipped_containers.entry(*why).or_default() += n;
        }
    }

    /// Counts a pod that has gone, which was added as the same.
    pub(crate) fn subtract(&mut self, pod: &Collapsed) {
        self.pods = self.pods.saturating_sub(1);
        self.config_digests = self.config_digests.saturating_sub(pod.config_digests());
        match &pod.workload {
            Ok(_) => self.artifacts = self.artifacts.saturating_sub(1),
            Err(why) => less(&mut self.skipped_pods, why, 1),
        }
        for (why, n) in &pod.skipped {
            less(&mut self.skipped_containers, why, *n);
        }
    }

    /// Counts pods of which not even the name could be read.
    pub(crate) fn add_unreadable(&mut self, pods: u64) {
        if pods > 0 {
            self.pods += pods;
            *self.skipped_pods.entry(PodSkip::Unreadable).or_default() += pods;
        }
    }
}

fn less<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K, by: u64) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(by);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
