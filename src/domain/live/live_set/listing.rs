//! How far the list of one scope is.
//!
//! The set itself is marked and swept; this only knows whether a list is being read, what it found that
//! was not in the set, and how many of its items had no name to keep them by.

use std::collections::BTreeMap;

/// The list of a cluster, or of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// A list was read to its end.
    pub(crate) is_listed: bool,
    /// A list is being read, or was given up.
    pub(crate) is_open: bool,
    pub(crate) differences: Swept,
    /// By namespace, empty where that is not known either: those of the last complete list and since.
    nameless: BTreeMap<Box<str>, u64>,
    /// Those of the list that is being read.
    nameless_here: BTreeMap<Box<str>, u64>,
}

/// What a complete list found to differ from the set, whatever the number of attempts that it took. A
/// list that only confirms a watch finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Pods that were not in the set.
    pub came: u64,
    /// Pods that were, otherwise.
    pub differed: u64,
    /// Pods that the list did not name.
    pub went: u64,
}

impl Listing {
    pub(crate) fn begin(&mut self) {
        self.is_open = true;
        self.nameless_here.clear();
    }

    pub(crate) fn complete(&mut self) -> Swept {
        self.is_open = false;
        self.is_listed = true;
        self.nameless = std::mem::take(&mut self.nameless_here);
        std::mem::take(&mut self.differences)
    }

    /// An item that has no name cannot be recognized in the next list, so each list counts anew.
    pub(crate) fn add_nameless(&mut self, namespace: &str) {
        let counts = if self.is_open { &mut self.nameless_here } else { &mut self.nameless };
        match counts.get_mut(namespace) {
            Some(count) => *count += 1,
            None => _ = counts.insert(namespace.into(), 1),
        }
    }

    /// How many there are in the namespaces that are asked for.
    pub(crate) fn nameless(&self, is_asked: impl Fn(&str) -> bool) -> u64 {
        self.nameless.iter().filter(|(namespace, _)| is_asked(namespace)).map(|(_, count)| count).sum()
    }
}
