//! What the live set is asked: revisions, counts, what was seen, and an environment's snapshot.
//!
//! `agent` asks before and while it reports. Nothing here changes the set.

use std::sync::Arc;

use super::{Namespace, Roster, Snapshot, Tally};
use crate::domain::live::departure::Revision;
use crate::domain::model::{Artifact, NamespaceName};

impl Roster {
    /// The last revision of the whole set: whatever is in it, and whatever left it, is no newer.
    #[must_use]
    pub fn latest(&self) -> Revision {
        self.ledger.latest()
    }

    /// The last revision that changed an artifact of this environment.
    #[must_use]
    pub fn revision(&self, environment: usize) -> Revision {
        self.ledger.revision(environment)
    }

    /// The last revision that changed an artifact of this namespace; `None` where it has no pod.
    #[cfg(test)]
    pub(crate) fn namespace_revision(&self, namespace: &str) -> Option<Revision> {
        self.search(namespace).ok().and_then(|n| self.namespaces.get(n)).map(|n| n.account.revision)
    }

    /// Whether a pod was ever seen in this namespace, which a selection names.
    #[must_use]
    pub fn has_seen(&self, namespace: &str) -> bool {
        self.ledger.has_seen(namespace)
    }

    /// Whether a pod was ever seen in any namespace of this environment.
    #[must_use]
    pub fn has_seen_any(&self, environment: usize) -> bool {
        self.ledger.has_seen_any(environment)
    }

    /// Whether a list was read to its end.
    #[must_use]
    pub fn is_listed(&self, of: Option<&NamespaceName>) -> bool {
        self.listings.get(&of.cloned()).is_some_and(|listing| listing.is_listed)
    }

    /// How many items could not be read of which not even the namespace is known, in the last complete
    /// lists and since.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.listings.values().map(|listing| listing.nameless(str::is_empty)).sum()
    }

    /// What was counted in an environment's namespaces.
    #[must_use]
    pub fn tally(&self, environment: usize) -> Tally {
        let mut tally = self.ledger.tally(environment);
        for listing in self.listings.values() {
            tally.add_unreadable(
                listing.nameless(|name| !name.is_empty() && self.ledger.takes(environment, name)),
            );
        }
        tally
    }

    /// What one environment reports, with these artifacts of pods that are gone. One that is back, as
    /// from a restored backup, is said once.
    #[must_use]
    pub fn snapshot(&self, environment: usize, mut witnessed: Vec<Artifact>) -> Snapshot {
        witnessed.retain(|artifact| !self.runs(artifact));
        let taken = self.namespaces.iter().filter(|namespace| namespace.account.is_of(environment));
        let blocks = taken.flat_map(|Namespace { account, pods }| {
            pods.share().map(|block| (Arc::clone(&account.namespace), block))
        });
        Snapshot::new(self.tally(environment), self.revision(environment), blocks.collect(), witnessed)
    }

    /// Whether a pod runs, and just that.
    fn runs(&self, artifact: &Artifact) -> bool {
        let Ok(n) = self.search(&artifact.namespace) else { return false };
        let Some(Namespace { pods, .. }) = self.namespaces.get(n) else { return false };
        let entry = pods.find(&artifact.pod_name).ok().and_then(|at| pods.get(at));
        entry.is_some_and(|entry| {
            entry.created_at == artifact.created_at && entry.workload() == Some(&artifact.workload)
        })
    }
}
