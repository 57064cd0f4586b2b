//! Progress of the list of one scope.
//!
//! The live set does the mark and sweep. [`ListState`] records whether a list is being read, its differences
//! from the set, and the number of items without a name.

use std::collections::BTreeMap;

/// The list of the cluster, or of one namespace.
#[derive(Debug, Default)]
pub(super) struct ListState {
    /// A list was completed.
    pub(super) is_listed: bool,
    /// A list was started and not completed.
    pub(super) is_open: bool,
    pub(super) diff: RelistDiff,
    /// Items without a name by namespace ("" if unknown), in the last complete list and since.
    unnamed: BTreeMap<Box<str>, u64>,
    /// The same, in the list that is being read.
    current_unnamed: BTreeMap<Box<str>, u64>,
}

/// Differences between a complete list and the live set, over all attempts to read the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelistDiff {
    /// Pods that were not in the set.
    pub added: u64,
    /// Pods whose state differed.
    pub changed: u64,
    /// Pods that the list did not contain.
    pub removed: u64,
}

impl ListState {
    pub(super) fn begin(&mut self) {
        self.is_open = true;
        self.current_unnamed.clear();
    }

    pub(super) fn complete(&mut self) -> RelistDiff {
        self.is_open = false;
        self.is_listed = true;
        self.unnamed = std::mem::take(&mut self.current_unnamed);
        std::mem::take(&mut self.diff)
    }

    /// Counts an item without a name. It cannot be recognized in the next list, so each list restarts the
    /// count.
    pub(super) fn add_unnamed(&mut self, namespace: &str) {
        let counts = self.counts();
        match counts.get_mut(namespace) {
            Some(count) => *count += 1,
            None => _ = counts.insert(namespace.into(), 1),
        }
    }

    /// Counts a namespace that is itself unreadable, once.
    pub(super) fn add_namespace(&mut self, namespace: &str) {
        self.counts().insert(namespace.into(), 1);
    }

    pub(super) fn forget_namespace(&mut self, namespace: &str) {
        self.unnamed.remove(namespace);
        self.current_unnamed.remove(namespace);
    }

    fn counts(&mut self) -> &mut BTreeMap<Box<str>, u64> {
        if self.is_open { &mut self.current_unnamed } else { &mut self.unnamed }
    }

    /// Number of items without a name in the selected namespaces.
    pub(super) fn unnamed(&self, is_selected: impl Fn(&str) -> bool) -> u64 {
        self.unnamed.iter().filter(|(namespace, _)| is_selected(namespace)).map(|(_, count)| count).sum()
    }
}
