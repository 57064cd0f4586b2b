//! Counters of the environments: tally, last revision, and namespaces with a seen pod or matching labels.
//!
//! The live set updates them on every change. Revisions count changes of the whole set; the revision of an
//! environment is the last one that changed one of its artifacts.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::blocks::Blocks;
use super::entry::{Entry, FinalState};
use super::label_matches::LabelMatches;
use super::tally::Tally;
use crate::live::collapse::Collapsed;
use crate::live::departure::{Departure, Revision};
use crate::live::labels::NamespaceView;
use crate::live::selection::{Exclusion, Selection};
use model::NamespaceName;

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) environments: Vec<EnvironmentCounters>,
    /// Selected names of namespaces in which a pod was seen. Other names are not stored: a cluster may create
    /// any number of them.
    pub(super) seen: BTreeSet<NamespaceName>,
    pub(super) labels: LabelMatches,
    pub(super) latest: Revision,
}

#[derive(Debug)]
pub(super) struct EnvironmentCounters {
    selection: Selection,
    tally: Tally,
    pub(super) revision: Revision,
    pub(super) is_seen: bool,
}

#[derive(Debug)]
pub(super) struct NamespaceCounters {
    pub(super) name: Arc<str>,
    pub(super) revision: Revision,
    /// The environments that select the namespace.
    environments: Box<[usize]>,
    is_seen: bool,
}

impl NamespaceCounters {
    pub(super) fn is_selected(&self) -> bool {
        !self.environments.is_empty()
    }

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
        Self {
            environments,
            seen: BTreeSet::new(),
            labels: LabelMatches::default(),
            latest: Revision::default(),
        }
    }

    /// Counters for a namespace; `None` if no environment selects it, whatever its labels are.
    pub(super) fn for_namespace(&self, namespace: &str) -> Option<NamespaceCounters> {
        let environments = self.selecting(namespace);
        let revision = Revision::default();
        (!environments.is_empty() || self.depends_on_labels(namespace)).then(|| NamespaceCounters {
            name: namespace.into(),
            revision,
            environments,
            is_seen: false,
        })
    }

    fn selecting(&self, namespace: &str) -> Box<[usize]> {
        (0..self.environments.len()).filter(|n| self.selected_since(*n, namespace).is_some()).collect()
    }

    fn depends_on_labels(&self, namespace: &str) -> bool {
        self.environments.iter().any(|e| e.selection.label_selector_for(namespace).is_some())
    }

    /// Whether the environments that select a namespace depend on labels that are not known yet.
    pub(super) fn awaits_labels(&self, namespace: &str) -> bool {
        self.depends_on_labels(namespace) && !self.labels.contains(namespace)
    }

    /// The first revision in which an environment selected a namespace: zero if its labels do not matter; `None` if it
    /// does not select it.
    pub(super) fn selected_since(&self, environment: usize, namespace: &str) -> Option<Revision> {
        let is_selected = self.environments.get(environment)?.selection.selects(namespace);
        if is_selected { Some(Revision::default()) } else { self.labels.since(namespace, environment) }
    }

    /// Applies the labels of a namespace. Returns whether other environments select it now.
    pub(super) fn apply_labels(&mut self, NamespaceView { name, labels }: &NamespaceView) -> bool {
        let matching = self.environments.iter().enumerate().filter(|(_, environment)| {
            environment.selection.label_selector_for(name).is_some_and(|selector| selector.matches(labels))
        });
        let next = self.latest.next();
        let differs = self.labels.apply(name, matching.map(|(n, _)| n), next);
        if differs {
            self.latest = next;
        }
        differs
    }

    /// Number of unreadable namespaces that an environment may select by labels.
    pub(super) fn unreadable_namespaces(&self, environment: usize) -> u64 {
        self.environments
            .get(environment)
            .map_or(0, |environment| self.labels.unreadable(&environment.selection))
    }

    /// Moves the pods of a namespace to the environments that select it now, in the latest revision.
    pub(super) fn move_pods(&mut self, namespace: &mut NamespaceCounters, pods: &Blocks) {
        let environments = self.selecting(&namespace.name);
        let before = std::mem::replace(&mut namespace.environments, environments);
        let has_artifacts = pods.iter().any(|entry| entry.workload().is_some());
        for (n, environment) in self.environments.iter_mut().enumerate() {
            let change = match (before.contains(&n), namespace.belongs_to(n)) {
                (false, true) => Tally::add,
                (true, false) => Tally::subtract,
                _ => continue,
            };
            for entry in pods.iter() {
                change(&mut environment.tally, &entry.template.collapsed, environment.selection.exclusion());
            }
            environment.is_seen |= namespace.belongs_to(n);
            if has_artifacts {
                environment.revision = self.latest;
            }
        }
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
            let exclusion = environment.selection.exclusion();
            if let Some(before) = before {
                environment.tally.subtract(before, exclusion);
            }
            if let Some(now) = now {
                environment.tally.add(now, exclusion);
            }
        }
    }

    pub(super) fn tally(&self, environment: usize) -> Tally {
        self.environments.get(environment).map(|environment| environment.tally.clone()).unwrap_or_default()
    }

    pub(super) fn exclusion(&self, environment: usize) -> Exclusion {
        self.environments
            .get(environment)
            .map(|environment| environment.selection.exclusion())
            .unwrap_or_default()
    }

    /// Whether an environment of this namespace excludes the pod.
    pub(super) fn excludes(&self, namespace: &NamespaceCounters, pod: &Entry) -> bool {
        namespace.environments.iter().any(|n| pod.is_excluded(self.exclusion(*n)))
    }

    pub(super) fn selects(&self, environment: usize, namespace: &str) -> bool {
        self.selected_since(environment, namespace).is_some()
    }
}
