//! The live set: all pods of the namespaces that any environment selects, or may select by labels, in report order.
//!
//! `agent` feeds it from lists and watches. A relist is a mark and sweep: listed pods are applied at once,
//! unlisted pods are removed when the list is complete. A [`Snapshot`] of it is the report of an environment.
//! Returns changes and departures, but never decides about reports.
//!
//! Artifacts are sorted bytewise by `namespace/name`: `a-b/x` comes before `a/x`. Pods and namespaces have separate
//! watches, so either may be ahead: a pod whose namespace is not known is kept, and so is its departure.

mod block;
mod blocks;
mod counters;
mod entry;
mod label_matches;
mod list_state;
mod queries;
mod snapshot;
mod tally;
mod template;

use std::cmp::Ordering;
use std::collections::BTreeMap;

pub use list_state::RelistDiff;
pub use snapshot::{Cursor, Iter, Snapshot};
pub use tally::Tally;

use blocks::Blocks;
use counters::{Counters, NamespaceCounters};
use entry::{Entry, FinalState, Identity};
use list_state::ListState;
use template::Templates;

use super::collapse::{ContainerSkip, Counting, PodSkip};
use super::departure::{Departure, Revision};
use super::labels::NamespaceView;
use super::pod::{Phase, PodView};
use super::selection::Selection;
use model::escape::needs_escape;
use model::{NamespaceName, namespace_order};

/// Maximum length of an object name, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// The live set.
///
/// `scope` is the namespace of a list or watch; `None` is the whole cluster. `environment` is an index into
/// the selections that the set was created with; an unknown index has no pods. Pods of a namespace that no
/// selection contains are not stored.
#[derive(Debug)]
pub struct LiveSet {
    counting: Counting,
    counters: Counters,
    templates: Templates,
    /// In report order; never empty ones.
    namespaces: Vec<Namespace>,
    lists: BTreeMap<Option<NamespaceName>, ListState>,
}

#[derive(Debug)]
struct Namespace {
    counters: NamespaceCounters,
    pods: Blocks,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyResult {
    /// Artifacts that ended: of this pod, of an earlier pod with its name, or both.
    pub departures: Vec<Departure>,
    /// Why the pod is not reported in an environment that selects its namespace.
    pub skip: Option<PodSkip>,
    /// Number of skipped containers, by reason.
    pub skipped_containers: Box<[(ContainerSkip, u64)]>,
    /// The current list already contained this pod.
    pub is_repeated: bool,
}

/// Result of an item that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadableItem {
    /// No environment selects its namespace.
    NotSelected,
    /// The last known state of the pod is kept.
    Kept,
    /// The item is counted as a skipped pod.
    Skipped,
    /// Its namespace is unknown.
    Unattributed,
}

impl LiveSet {
    /// An empty set; environment `n` has the `n`th selection.
    #[must_use]
    pub fn new(selections: Vec<Selection>, counting: Counting) -> Self {
        Self {
            counting,
            counters: Counters::new(selections),
            templates: Templates::default(),
            namespaces: Vec::new(),
            lists: BTreeMap::new(),
        }
    }

    pub fn begin_namespaces(&mut self) {
        self.counters.labels.begin();
    }

    /// Applies a listed namespace, or one that was added or modified: its pods move to the environments that its labels
    /// select. A moved pod neither started nor departed.
    pub fn apply_namespace(&mut self, namespace: &NamespaceView) {
        if self.counters.apply_labels(namespace)
            && let Ok(n) = self.search(&namespace.name)
            && let Some(Namespace { counters, pods }) = self.namespaces.get_mut(n)
        {
            self.counters.move_pods(counters, pods);
        }
    }

    /// Counts a listed or changed namespace that cannot be read; `None` if its name cannot be read either. A known one keeps
    /// its environments.
    pub fn add_unreadable_namespace(&mut self, name: Option<&str>) {
        self.counters.labels.add_unreadable(name);
    }

    /// Removes a deleted namespace from the unreadable ones. Its environments are kept: its last pods may depart later.
    pub fn remove_namespace(&mut self, name: &str) {
        self.counters.labels.forget_unreadable(name);
    }

    /// Completes a list of namespaces: forgets those that it did not contain.
    pub fn complete_namespaces(&mut self) -> RelistDiff {
        let namespaces = &self.namespaces;
        self.counters.labels.complete(|name| namespaces.binary_search_by(|n| n.order(name)).is_ok())
    }

    /// Starts or restarts a list: clears the marks. Removes no pod.
    pub fn begin(&mut self, scope: Option<&NamespaceName>) {
        for namespace in in_scope(&mut self.namespaces, scope) {
            namespace.pods.clear_marks();
        }
        self.list(scope).begin();
    }

    /// Applies a listed pod, or a pod that was added or modified.
    ///
    /// A pod that has already ended when it is first seen departs at once, except in the first list of its
    /// scope: it may have ended long ago.
    ///
    /// A pod that replaces one of its digests departs in its previous state; otherwise an image that ran
    /// only between two reports would be missing.
    pub fn apply(&mut self, scope: Option<&NamespaceName>, mut pod: PodView) -> ApplyResult {
        if !is_name(&pod.name) || !is_name(&pod.namespace) {
            let namespace = if is_name(&pod.namespace) { pod.namespace.as_str() } else { "" };
            let item = self.unreadable(scope, Some((namespace, "")));
            let skip = (item != UnreadableItem::NotSelected).then_some(PodSkip::Unreadable);
            return ApplyResult { skip, ..ApplyResult::default() };
        }
        let Some(n) = self.find_or_add(&pod.namespace) else { return ApplyResult::default() };
        let Some(Namespace { counters, pods }) = self.namespaces.get_mut(n) else {
            return ApplyResult::default();
        };
        let list = self.lists.entry(scope.cloned()).or_default();
        self.counters.mark_seen(counters);

        let name = pod.name.clone();
        let at = pods.find(&name);
        let before = at.ok().and_then(|at| pods.get(at)).cloned();
        let is_repeated = list.is_open && at.is_ok_and(|at| pods.is_marked(at));
        let identity = Identity::from_pod(&pod);
        let own = before.as_ref().filter(|before| before.identity == identity);
        pod.created_at = Entry::creation_time(own, &pod);
        let has_ended = pod.phase == Phase::Ended && is_new_departure(own, list);
        let final_state = if has_ended { FinalState::new(&pod, self.counting, own) } else { None };
        let created_at = pod.created_at.unwrap_or_default();
        let template = self.templates.for_pod(pod, self.counting, own.map(|own| &own.template));
        let mut now = Entry::new(created_at, identity, template);

        let has_same_artifact =
            before.as_ref().map_or(now.workload().is_none(), |before| before.has_same_artifact(&now));
        now.since = match &before {
            _ if !has_same_artifact => self.counters.record_change(counters),
            Some(before) => before.since,
            None => Revision::default(),
        };
        // A pod with the same artifact as the one it replaces is the same pod to the reader of a report.
        let is_replaced = |old: &&Entry| own.is_none() || old.has_digest_missing_in(&now);
        let replaced = before.as_ref().filter(|_| !has_same_artifact).filter(is_replaced);
        let mut departures: Vec<_> =
            replaced.and_then(|old| old.departure(&counters.name, &name)).into_iter().collect();
        if now.workload().is_none() {
            departures.extend(self.counters.departure(counters, &name, own, final_state));
        }

        let (skip, skipped_containers) = if counters.is_selected() {
            let excluded = || self.counters.excludes(counters, &now).then_some(PodSkip::Excluded);
            (now.skip().or_else(excluded), now.template.collapsed.skipped.clone())
        } else {
            (None, Box::default())
        };
        let differs = before.as_ref().is_none_or(|before| !before.is_same(&now));
        if differs {
            let was = before.as_ref().map(|before| &before.template.collapsed);
            self.counters.update_tally(counters, was, Some(&now.template.collapsed));
        }
        if list.is_open && !is_repeated {
            list.diff.added += u64::from(before.is_none());
            list.diff.changed += u64::from(before.is_some() && differs);
        }
        match at {
            Ok(at) => {
                pods.mark(at);
                if differs {
                    pods.replace(at, now);
                }
            }
            Err(at) => pods.insert(at, &name, now),
        }
        ApplyResult { departures, skip, skipped_containers, is_repeated }
    }

    /// Removes a deleted pod; `pod` is its last state.
    pub fn remove(&mut self, scope: Option<&NamespaceName>, pod: &PodView) -> Option<Departure> {
        let is_valid = is_name(&pod.namespace) && is_name(&pod.name);
        is_valid.then(|| self.remove_by_name(scope, &pod.namespace, &pod.name, Some(pod))).flatten()
    }

    /// Removes a deleted pod of which only the name can be read.
    pub fn remove_named(
        &mut self,
        scope: Option<&NamespaceName>,
        namespace: &str,
        name: &str,
    ) -> Option<Departure> {
        self.remove_by_name(scope, namespace, name, None)
    }

    fn remove_by_name(
        &mut self,
        scope: Option<&NamespaceName>,
        namespace: &str,
        name: &str,
        pod: Option<&PodView>,
    ) -> Option<Departure> {
        let list = self.lists.entry(scope.cloned()).or_default();
        let found = self.namespaces.binary_search_by(|n| n.order(namespace)).ok();
        let Some((n, Namespace { counters, pods })) =
            found.and_then(|n| Some((n, self.namespaces.get_mut(n)?)))
        else {
            // The pod started and ended while no event was received. Pods that ended before the first list
            // do not count.
            let mut counters = self.counters.for_namespace(namespace)?;
            self.counters.mark_seen(&mut counters);
            let new = pod.filter(|_| is_new_departure(None, list));
            let final_state = new.and_then(|pod| FinalState::new(pod, self.counting, None));
            return self.counters.departure(&counters, name, None, final_state);
        };
        let at = pods.find(name);
        let own = at.ok().and_then(|at| pods.get(at)).cloned();
        let is_other =
            |own: &Entry, pod| ![Identity::from_pod(pod), Identity::UNKNOWN].contains(&own.identity);
        if let (Some(own), Some(pod)) = (&own, pod)
            && is_other(own, pod)
        {
            // A later pod with this name has already replaced the deleted one.
            return None;
        }
        let own = own.as_ref();
        let new = pod.filter(|_| is_new_departure(own, list));
        let final_state = new.and_then(|pod| FinalState::new(pod, self.counting, own));
        if let (Some(own), Ok(at)) = (own, at) {
            self.counters.update_tally(counters, Some(&own.template.collapsed), None);
            if own.workload().is_some() {
                self.counters.record_change(counters);
            }
            pods.remove(at);
        }
        let departure = self.counters.departure(counters, name, own, final_state);
        if pods.is_empty() {
            self.namespaces.remove(n);
        }
        departure
    }

    /// Counts an item that cannot be read. A known pod keeps its last state. An unknown pod with a name is
    /// stored as skipped until it can be read or is removed.
    pub fn unreadable(
        &mut self,
        scope: Option<&NamespaceName>,
        name: Option<(&str, &str)>,
    ) -> UnreadableItem {
        let (namespace, name) = name.unwrap_or_default();
        let namespace = match scope {
            Some(scope) if namespace.is_empty() => scope.as_str(),
            _ => namespace,
        };
        if namespace.is_empty() {
            self.list(scope).add_unnamed("");
            return UnreadableItem::Unattributed;
        }
        if name.is_empty() {
            let Some(mut counters) = self.counters.for_namespace(namespace) else {
                return UnreadableItem::NotSelected;
            };
            self.counters.mark_seen(&mut counters);
            self.list(scope).add_unnamed(namespace);
            return UnreadableItem::Skipped;
        }
        let Some(n) = self.find_or_add(namespace) else { return UnreadableItem::NotSelected };
        let Some(Namespace { counters, pods }) = self.namespaces.get_mut(n) else {
            return UnreadableItem::NotSelected;
        };
        self.counters.mark_seen(counters);
        match pods.find(name) {
            Ok(at) => {
                pods.mark(at);
                match pods.get(at).and_then(Entry::skip) {
                    Some(PodSkip::Unreadable) => UnreadableItem::Skipped,
                    _ => UnreadableItem::Kept,
                }
            }
            Err(at) => {
                let template = self.templates.for_skip(PodSkip::Unreadable);
                self.counters.update_tally(counters, None, Some(&template.collapsed));
                pods.insert(at, name, Entry::new(0, Identity::UNKNOWN, template));
                let list = self.list(scope);
                list.diff.added += u64::from(list.is_open);
                UnreadableItem::Skipped
            }
        }
    }

    /// Completes a list: removes the pods that it did not contain, and passes their departures to `each`. Has
    /// no effect if no list was started.
    pub fn complete(&mut self, scope: Option<&NamespaceName>, mut each: impl FnMut(Departure)) -> RelistDiff {
        if !self.list(scope).is_open {
            return RelistDiff::default();
        }
        let all_counters = &mut self.counters;
        let mut removed = 0;
        for Namespace { counters, pods } in in_scope(&mut self.namespaces, scope) {
            pods.sweep(|name, entry| {
                removed += 1;
                all_counters.update_tally(counters, Some(&entry.template.collapsed), None);
                if let Some(departure) = entry.departure(&counters.name, name) {
                    all_counters.record_change(counters);
                    each(departure);
                }
            });
        }
        self.namespaces.retain(|namespace| !namespace.pods.is_empty());
        RelistDiff { removed, ..self.list(scope).complete() }
    }

    /// The index of a namespace; `None` if no environment selects it.
    fn find_or_add(&mut self, name: &str) -> Option<usize> {
        match self.search(name) {
            Ok(n) => Some(n),
            Err(n) => {
                let counters = self.counters.for_namespace(name)?;
                self.namespaces.insert(n, Namespace { counters, pods: Blocks::default() });
                Some(n)
            }
        }
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.namespaces.binary_search_by(|n| n.order(name))
    }

    fn list(&mut self, scope: Option<&NamespaceName>) -> &mut ListState {
        self.lists.entry(scope.cloned()).or_default()
    }
}

impl Namespace {
    fn order(&self, name: &str) -> Ordering {
        namespace_order(&self.counters.name, name)
    }
}

fn in_scope<'a>(
    namespaces: &'a mut [Namespace],
    scope: Option<&NamespaceName>,
) -> impl Iterator<Item = &'a mut Namespace> {
    let scope = scope.map(|name| Box::<str>::from(name.as_str()));
    namespaces.iter_mut().filter(move |n| scope.as_ref().is_none_or(|scope| **scope == *n.counters.name))
}

/// Whether a pod or a namespace can have this name. Laxer than DNS subdomains (Kubernetes documentation,
/// "Object Names and IDs"), but strict enough that the service does not reject the report.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(needs_escape)
}

/// Whether the end of a pod is new: the pod was seen before it ended, or first seen after the first list.
fn is_new_departure(own: Option<&Entry>, list: &ListState) -> bool {
    match own {
        Some(own) if own.identity != Identity::UNKNOWN => own.skip() != Some(PodSkip::Ended),
        _ => list.is_listed,
    }
}

#[cfg(test)]
mod state_model;
#[cfg(test)]
mod tests;
