//! Counters of the environments: tally, last revision, and namespaces with a seen pod.
//!
//! The live set updates them on every change. Revisions count changes of the whole set; the revision of an
//! environment is the last one that changed one of its artifacts.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::{Entry, FinalState};
use super::tally::Tally;
use crate::domain::live::collapse::Collapsed;
use crate::domain::live::departure::{Departure, Revision};
use crate::domain::live::selection::Selection;
use crate::domain::model::NamespaceName;

/// Counters of all environments.
#[derive(Debug)]
pub(super) struct Counters {
    environments: Vec<EnvironmentCounters>,
    /// Selected names of namespaces in which a pod was seen. Other names are not stored: a cluster may create
    /// any number of them.
    seen: BTreeSet<NamespaceName>,
    latest: Revision,
}

#[derive(Debug)]
struct EnvironmentCounters {
    selection: Selection,
    tally: Tally,
    revision: Revision,
    is_seen: bool,
}

/// Counters of one namespace.
#[derive(Debug)]
pub(super) struct NamespaceCounters {
    pub(super) name: Arc<str>,
    pub(super) revision: Revision,
    /// The environments that select the namespace.
    environments: Box<[usize]>,
    is_seen: bool,
}

impl NamespaceCounters {
    pub(super) fn belongs_to(&self, environment: usize) -> bool {
        self.environments.contains(&environment)
    }
}

impl Counters {
    pub(super) fn new(selections: Vec<Selection>) -> Self {
        let environment = |selection| EnvironmentCounters {
            selection,
            tally: Tally::default(),
            revision: Revision::default(),
            is_seen: false,
        };
        let environments = selections.into_iter().map(environment).collect();
        Self { environments, seen: BTreeSet::new(), latest: Revision::default() }
    }

    /// Counters for a namespace; `None` if no environment selects it.
    pub(super) fn for_namespace(&self, namespace: &str) -> Option<NamespaceCounters> {
        let environments: Box<[usize]> = self
            .environments
            .iter()
            .enumerate()
            .filter(|(_, environment)| environment.selection.selects(namespace))
            .map(|(n, _)| n)
            .collect();
        let revision = Revision::default();
        (!environments.is_empty()).then(|| NamespaceCounters {
            name: namespace.into(),
            revision,
            environments,
            is_seen: false,
        })
    }

    /// Records that a pod was seen in this namespace.
    pub(super) fn mark_seen(&mut self, namespace: &mut NamespaceCounters) {
        if std::mem::replace(&mut namespace.is_seen, true) {
            return;
        }
        for n in &namespace.environments {
            let Some(environment) = self.environments.get_mut(*n) else { continue };
            environment.is_seen = true;
            let named = environment.selection.names().iter().find(|name| name.as_str() == &*namespace.name);
            if let Some(name) = named.filter(|name| !self.seen.contains(*name)) {
                self.seen.insert(name.clone());
            }
        }
    }

    pub(super) fn has_seen(&self, namespace: &str) -> bool {
        self.seen.iter().any(|name| name.as_str() == namespace)
    }

    pub(super) fn has_seen_any(&self, environment: usize) -> bool {
        self.environments.get(environment).is_some_and(|environment| environment.is_seen)
    }

    pub(super) fn latest(&self) -> Revision {
        self.latest
    }

    /// A new revision, newer than every report.
    fn next_revision(&mut self) -> Revision {
        self.latest = self.latest.next();
        self.latest
    }

    /// Records that an artifact of this namespace was added, changed or removed.
    pub(super) fn record_change(&mut self, namespace: &mut NamespaceCounters) -> Revision {
        let revision = self.next_revision();
        namespace.revision = revision;
        for n in &namespace.environments {
            if let Some(environment) = self.environments.get_mut(*n) {
                environment.revision = revision;
            }
        }
        revision
    }

    /// The departure of a pod. `last` is its final state if the end is new, `own` its entry. A final state
    /// that no report can have contained gets a new revision.
    pub(super) fn departure(
        &mut self,
        namespace: &NamespaceCounters,
        name: &str,
        own: Option<&Entry>,
        last: Option<FinalState>,
    ) -> Option<Departure> {
        match last {
            Some(last) if own.is_none_or(|own| !last.equals(own)) => {
                Some(last.departure(&namespace.name, name, self.next_revision()))
            }
            _ => own?.departure(&namespace.name, name),
        }
    }

    /// Replaces the state of a pod of this namespace in the tallies; `None` if it was or is absent.
    pub(super) fn update_tally(
        &mut self,
        namespace: &NamespaceCounters,
        before: Option<&Collapsed>,
        now: Option<&Collapsed>,
    ) {
        for n in &namespace.environments {
            let Some(environment) = self.environments.get_mut(*n) else { continue };
            if let Some(before) = before {
                environment.tally.subtract(before);
            }
            if let Some(now) = now {
                environment.tally.add(now);
            }
        }
    }

    pub(super) fn tally(&self, environment: usize) -> Tally {
        self.environments.get(environment).map(|environment| environment.tally.clone()).unwrap_or_default()
    }

    pub(super) fn revision(&self, environment: usize) -> Revision {
        self.environments.get(environment).map(|environment| environment.revision).unwrap_or_default()
    }

    pub(super) fn selects(&self, environment: usize, namespace: &str) -> bool {
        self.environments.get(environment).is_some_and(|e| e.selection.selects(namespace))
    }
}
