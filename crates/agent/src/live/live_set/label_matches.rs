//! The environments whose label selector matches a namespace, for every namespace of the cluster.
//!
//! [`Counters`](super::counters::Counters) keeps it while an environment has a selector. Labels are not stored. A deleted
//! namespace keeps its entry until the next list: its last pods may end later, because they have another watch.

use std::collections::BTreeMap;

use super::list_state::{ListState, RelistDiff};
use crate::live::departure::Revision;
use crate::live::selection::Selection;

#[derive(Debug, Default)]
pub(super) struct LabelMatches {
    list: ListState,
    namespaces: BTreeMap<Box<str>, Matches>,
}

#[derive(Debug)]
struct Matches {
    /// Environments, with the first revision in which each matched.
    environments: Box<[(usize, Revision)]>,
    is_marked: bool,
}

impl LabelMatches {
    pub(super) fn begin(&mut self) {
        self.list.begin();
        for matches in self.namespaces.values_mut() {
            matches.is_marked = false;
        }
    }

    /// Replaces the environments of a namespace; new ones match from the revision `next` on. Returns whether they differ.
    pub(super) fn apply(
        &mut self,
        namespace: &str,
        environments: impl Iterator<Item = usize>,
        next: Revision,
    ) -> bool {
        self.list.forget_namespace(namespace);
        let known = self.namespaces.get(namespace);
        let before = known.map(|known| &*known.environments).unwrap_or_default();
        let since = |n| before.iter().find(|(known, _)| *known == n).map_or(next, |(_, since)| *since);
        let environments: Box<[_]> = environments.map(|n| (n, since(n))).collect();
        let differs = *environments != *before;
        if self.list.is_open {
            self.list.diff.added += u64::from(known.is_none());
            self.list.diff.changed += u64::from(known.is_some() && differs);
        }
        match self.namespaces.get_mut(namespace) {
            Some(known) => *known = Matches { environments, is_marked: true },
            None => _ = self.namespaces.insert(namespace.into(), Matches { environments, is_marked: true }),
        }
        differs
    }

    /// Counts a namespace that cannot be read. A known one keeps its environments; `None` if its name cannot be read either.
    pub(super) fn add_unreadable(&mut self, namespace: Option<&str>) {
        let Some(namespace) = namespace else { return self.list.add_unnamed("") };
        self.list.add_namespace(namespace);
        if let Some(known) = self.namespaces.get_mut(namespace) {
            known.is_marked = true;
        }
    }

    pub(super) fn forget_unreadable(&mut self, namespace: &str) {
        self.list.forget_namespace(namespace);
    }

    /// Number of unreadable namespaces that an environment with this selection may select by labels.
    pub(super) fn unreadable(&self, selection: &Selection) -> u64 {
        let may_match = |name: &str| name.is_empty() || selection.label_selector_for(name).is_some();
        if selection.has_label_selector() { self.list.unnamed(may_match) } else { 0 }
    }

    /// Completes a list: removes the namespaces that it did not contain, unless they have pods.
    pub(super) fn complete(&mut self, has_pods: impl Fn(&str) -> bool) -> RelistDiff {
        let before = self.namespaces.len();
        self.namespaces.retain(|namespace, matches| matches.is_marked || has_pods(namespace));
        RelistDiff { removed: (before - self.namespaces.len()) as u64, ..self.list.complete() }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.list.is_listed
    }

    pub(super) fn contains(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// The first revision in which an environment matched; `None` if it does not match.
    pub(super) fn since(&self, namespace: &str, environment: usize) -> Option<Revision> {
        let matches = self.namespaces.get(namespace)?;
        matches.environments.iter().find(|(n, _)| *n == environment).map(|(_, since)| *since)
    }
}
