//! Counts of one environment: reported pods, and skipped pods and containers by reason.
//!
//! Updated with each change of a pod, so that reading it needs no iteration over the set.

use std::collections::BTreeMap;

use crate::live::collapse::{Collapsed, ContainerSkip, PodSkip};
use crate::live::selection::Exclusion;

/// Counts of the pods in an environment's namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pods in any phase.
    pub pods: u64,
    pub artifacts: u64,
    /// Skipped pods; no entry is zero.
    pub skipped_pods: BTreeMap<PodSkip, u64>,
    /// Skipped containers of started pods; no entry is zero.
    pub skipped_containers: BTreeMap<ContainerSkip, u64>,
    /// Containers of which only the digest of the image configuration is known.
    pub config_digests: u64,
}

impl Tally {
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.skipped_pods.get(&PodSkip::Unreadable).copied().unwrap_or_default()
    }

    /// Number of pods that an annotation excludes.
    #[must_use]
    pub fn excluded(&self) -> u64 {
        self.skipped_pods.get(&PodSkip::Excluded).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, pod: &Collapsed, exclusion: Exclusion) {
        self.pods += 1;
        if is_excluded(pod, exclusion) {
            *self.skipped_pods.entry(PodSkip::Excluded).or_default() += 1;
            return;
        }
        self.config_digests += pod.config_digests();
        match &pod.workload {
            Ok(_) => self.artifacts += 1,
            Err(reason) => *self.skipped_pods.entry(*reason).or_default() += 1,
        }
        for (reason, n) in &pod.skipped {
            *self.skipped_containers.entry(*reason).or_default() += n;
        }
    }

    /// Subtracts a pod that was added in the same state.
    pub(super) fn subtract(&mut self, pod: &Collapsed, exclusion: Exclusion) {
        self.pods = self.pods.saturating_sub(1);
        if is_excluded(pod, exclusion) {
            decrease(&mut self.skipped_pods, &PodSkip::Excluded, 1);
            return;
        }
        self.config_digests = self.config_digests.saturating_sub(pod.config_digests());
        match &pod.workload {
            Ok(_) => self.artifacts = self.artifacts.saturating_sub(1),
            Err(reason) => decrease(&mut self.skipped_pods, reason, 1),
        }
        for (reason, n) in &pod.skipped {
            decrease(&mut self.skipped_containers, reason, *n);
        }
    }

    /// Adds unreadable pods without a name.
    pub(super) fn add_unreadable(&mut self, pods: u64) {
        if pods > 0 {
            self.pods += pods;
            *self.skipped_pods.entry(PodSkip::Unreadable).or_default() += pods;
        }
    }
}

fn is_excluded(pod: &Collapsed, exclusion: Exclusion) -> bool {
    pod.workload.as_ref().is_ok_and(|workload| exclusion.applies_to(workload))
}

fn decrease<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K, by: u64) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(by);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
