//! Read access to the live set: revisions, tallies, seen namespaces and snapshots.
//!
//! `agent` calls it before and during reports.

use std::sync::Arc;

use super::{LiveSet, Namespace, Snapshot, Tally};
use crate::live::departure::Revision;
use model::{Artifact, NamespaceName};

impl LiveSet {
    #[must_use]
    pub fn latest(&self) -> Revision {
        self.counters.latest
    }

    /// The last revision that changed an artifact of this environment.
    #[must_use]
    pub fn revision(&self, environment: usize) -> Revision {
        self.counters.environments.get(environment).map(|counters| counters.revision).unwrap_or_default()
    }

    /// The last revision that changed an artifact of this namespace; `None` if it has no pod.
    #[cfg(test)]
    pub(super) fn namespace_revision(&self, namespace: &str) -> Option<Revision> {
        self.search(namespace).ok().and_then(|n| self.namespaces.get(n)).map(|n| n.counters.revision)
    }

    /// Whether a pod was ever seen in this namespace, which must be a name of a selection.
    #[must_use]
    pub fn has_seen(&self, namespace: &str) -> bool {
        self.counters.seen.iter().any(|name| name.as_str() == namespace)
    }

    /// Whether a pod was ever seen in any namespace of this environment.
    #[must_use]
    pub fn has_seen_any(&self, environment: usize) -> bool {
        self.counters.environments.get(environment).is_some_and(|counters| counters.is_seen)
    }

    /// The first revision in which an environment selected a namespace: zero if its labels do not matter; `None` if it
    /// does not select it.
    #[must_use]
    pub fn selected_since(&self, environment: usize, namespace: &str) -> Option<Revision> {
        self.counters.selected_since(environment, namespace)
    }

    /// Whether the environments that select a namespace depend on labels that are not known yet.
    #[must_use]
    pub fn awaits_labels(&self, namespace: &str) -> bool {
        self.counters.awaits_labels(namespace)
    }

    /// Whether a list of namespaces was completed.
    #[must_use]
    pub fn are_namespaces_listed(&self) -> bool {
        self.counters.labels.is_listed()
    }

    /// Whether a list of this scope was completed.
    #[must_use]
    pub fn is_listed(&self, scope: Option<&NamespaceName>) -> bool {
        self.lists.get(&scope.cloned()).is_some_and(|list| list.is_listed)
    }

    /// Number of unreadable items that may belong to an environment, in the last complete lists and since: pods without a
    /// namespace, and namespaces whose labels may match.
    #[must_use]
    pub fn unattributed(&self, environment: usize) -> u64 {
        let pods: u64 = self.lists.values().map(|list| list.unnamed(str::is_empty)).sum();
        pods + self.counters.unreadable_namespaces(environment)
    }

    #[must_use]
    pub fn tally(&self, environment: usize) -> Tally {
        let mut tally = self.counters.tally(environment);
        for list in self.lists.values() {
            tally.add_unreadable(
                list.unnamed(|name| !name.is_empty() && self.counters.selects(environment, name)),
            );
        }
        tally
    }

    /// The report of one environment, including these departed pods. A departed pod that runs again, for
    /// example after a backup was restored, is included once.
    #[must_use]
    pub fn snapshot(&self, environment: usize, mut departed: Vec<Artifact>) -> Snapshot {
        departed.retain(|artifact| !self.runs(artifact));
        let selected = self.namespaces.iter().filter(|namespace| namespace.counters.belongs_to(environment));
        let blocks = selected.flat_map(|Namespace { counters, pods }| {
            pods.share().map(|block| (Arc::clone(&counters.name), block))
        });
        let (tally, revision) = (self.tally(environment), self.revision(environment));
        Snapshot::new(tally, revision, self.counters.exclusion(environment), blocks.collect(), departed)
    }

    /// Whether a running pod has this artifact.
    fn runs(&self, artifact: &Artifact) -> bool {
        let Ok(n) = self.search(&artifact.namespace) else { return false };
        let Some(Namespace { pods, .. }) = self.namespaces.get(n) else { return false };
        let entry = pods.find(&artifact.pod_name).ok().and_then(|at| pods.get(at));
        entry.is_some_and(|entry| {
            entry.created_at == artifact.created_at && entry.workload() == Some(&artifact.workload)
        })
    }
}
