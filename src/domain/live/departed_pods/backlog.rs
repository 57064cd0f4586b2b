//! The pods that a witness keeps, and which of them goes where there are too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::live::departure::Revision;
use crate::domain::model::{Artifact, OwnerReference};

/// What a pod takes beside its texts, and each of its images and owners, in bytes, about.
const EACH: usize = 128;

/// A pod that no accepted report held.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) artifact: Artifact,
    pub(crate) since: Revision,
    pub(crate) left: Revision,
}

/// They go by namespace and by the order in which they left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pile {
    kept: BTreeMap<(Arc<str>, u64), Kept>,
    /// What those of each namespace take, in bytes.
    sizes: BTreeMap<Arc<str>, usize>,
    /// The same, the most last.
    ranks: BTreeSet<(usize, Arc<str>)>,
    /// What all take.
    size: usize,
}

impl Kept {
    fn size(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
        let owner = |OwnerReference { api_version, kind, name, uid, .. }: &OwnerReference| {
            EACH + text(api_version) + text(kind) + text(name) + text(uid)
        };
        let workload = &self.artifact.workload;
        let images: usize = workload.digests.iter().map(|(name, _)| EACH + name.len()).sum();
        EACH + self.artifact.pod_name.len() + images + workload.owners.iter().map(owner).sum::<usize>()
    }
}

impl Pile {
    pub(crate) fn insert(&mut self, number: u64, new: Kept) {
        let namespace = Arc::clone(&new.artifact.namespace);
        let size = new.size();
        let before = self.sizes.get(&namespace).copied().unwrap_or_default();
        self.resize(&namespace, before, before + size);
        self.kept.insert((namespace, number), new);
    }

    pub(crate) fn get(&self, namespace: &Arc<str>, number: u64) -> Option<&Kept> {
        self.kept.get(&(Arc::clone(namespace), number))
    }

    pub(crate) fn remove(&mut self, namespace: &Arc<str>, number: u64) -> Option<Kept> {
        let old = self.kept.remove(&(Arc::clone(namespace), number))?;
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

    /// Takes out the oldest of the namespace whose pods take the most: who floods one crowds out nobody else.
    pub(crate) fn take_of_the_most(&mut self) -> Option<(u64, Kept)> {
        let namespace = Arc::clone(&self.ranks.last()?.1);
        let number = self.kept.range((Arc::clone(&namespace), 0)..).next()?.0.1;
        Some((number, self.remove(&namespace, number)?))
    }

    pub(crate) fn retain(&mut self, stays: impl Fn(&Kept) -> bool) {
        let all = std::mem::take(self);
        for ((_, number), kept) in all.kept.into_iter().filter(|(_, kept)| stays(kept)) {
            self.insert(number, kept);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Kept)> {
        self.kept.iter().map(|((_, number), kept)| (*number, kept))
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// What they take, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}
