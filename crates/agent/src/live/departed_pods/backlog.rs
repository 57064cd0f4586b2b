//! Storage of departed pods, with their size per namespace.
//!
//! Evicts from the largest namespace, so that one namespace cannot displace the pods of another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::live::departure::Revision;
use model::{Artifact, OwnerReference};

/// Approximate overhead of a pod, an image and an owner, in bytes.
const ENTRY_BYTES: usize = 128;

/// A departed pod that no accepted report contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DepartedPod {
    pub(super) artifact: Artifact,
    /// First revision that contained the artifact.
    pub(super) since: Revision,
    /// First revision without the artifact.
    pub(super) departed_at: Revision,
}

/// Departed pods by namespace and order of departure.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog {
    pods: BTreeMap<(Arc<str>, u64), DepartedPod>,
    /// Size of the pods of each namespace, in bytes.
    sizes: BTreeMap<Arc<str>, usize>,
    /// Namespaces by size, the largest last.
    ranks: BTreeSet<(usize, Arc<str>)>,
    /// Size of all pods, in bytes.
    size: usize,
}

impl DepartedPod {
    fn size(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
        let owner = |OwnerReference { api_version, kind, name, uid, .. }: &OwnerReference| {
            ENTRY_BYTES + text(api_version) + text(kind) + text(name) + text(uid)
        };
        let workload = &self.artifact.workload;
        let images: usize = workload.digests.iter().map(|(name, _)| ENTRY_BYTES + name.len()).sum();
        ENTRY_BYTES + self.artifact.pod_name.len() + images + workload.owners.iter().map(owner).sum::<usize>()
    }
}

impl Backlog {
    pub(super) fn insert(&mut self, number: u64, new: DepartedPod) {
        let namespace = Arc::clone(&new.artifact.namespace);
        let size = new.size();
        let before = self.sizes.get(&namespace).copied().unwrap_or_default();
        self.resize(&namespace, before, before + size);
        self.pods.insert((namespace, number), new);
    }

    pub(super) fn get(&self, namespace: &Arc<str>, number: u64) -> Option<&DepartedPod> {
        self.pods.get(&(Arc::clone(namespace), number))
    }

    pub(super) fn remove(&mut self, namespace: &Arc<str>, number: u64) -> Option<DepartedPod> {
        let old = self.pods.remove(&(Arc::clone(namespace), number))?;
        let before = self.sizes.get(namespace).copied().unwrap_or_default();
        self.resize(namespace, before, before.saturating_sub(old.size()));
        Some(old)
    }

    fn resize(&mut self, namespace: &Arc<str>, before: usize, now: usize) {
        self.size = (self.size + now).saturating_sub(before);
        self.ranks.remove(&(before, Arc::clone(namespace)));
        if now == 0 {
            self.sizes.remove(namespace);
        } else {
            self.sizes.insert(Arc::clone(namespace), now);
            self.ranks.insert((now, Arc::clone(namespace)));
        }
    }

    /// Removes the oldest pod of the largest namespace.
    pub(super) fn evict(&mut self) -> Option<(u64, DepartedPod)> {
        let namespace = Arc::clone(&self.ranks.last()?.1);
        let number = self.pods.range((Arc::clone(&namespace), 0)..).next()?.0.1;
        Some((number, self.remove(&namespace, number)?))
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&DepartedPod) -> bool) {
        let all = std::mem::take(self);
        for ((_, number), pod) in all.pods.into_iter().filter(|(_, pod)| keep(pod)) {
            self.insert(number, pod);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &DepartedPod)> {
        self.pods.iter().map(|((_, number), pod)| (*number, pod))
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Size of all pods, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}
