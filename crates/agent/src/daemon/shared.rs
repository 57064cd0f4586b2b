//! State shared by the tasks of the daemon: the live set, the watches and the environments.
//!
//! Watches write to it; reporters take snapshots; probes and scrapes read it. The lock is never held
//! across an await.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use super::environment_state::{EnvironmentState, ReportState};
use super::metrics::Metrics;
use super::timing::{DaemonTiming, TrackDeparted};
use super::watch_state::{WatchState, WatchTarget};
use crate::cluster::{EventType, PodName, Unreadable, WatchEvent};
use crate::live::cadence::{Knowledge, View};
use crate::live::confirmation::{Emptiness, Existence, Withheld};
use crate::live::departed_pods::{Contents, DepartedPods};
use crate::live::departure::{Departure, Revision};
use crate::live::labels::NamespaceView;
use crate::live::live_set::{LiveSet, Snapshot};
use crate::live::selection::Scope;
use crate::{EnvironmentConfig, Plan, intake};
use client::Client;
use model::NamespaceName;

pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the reporter of each environment.
    changed: Vec<Notify>,
    /// Wakes the lookups when a list is complete.
    list_completed: Notify,
    plan: Plan,
    client: Client,
    pub(super) metrics: Metrics,
}

/// The state behind the lock.
pub(super) struct State {
    pub(super) live_set: LiveSet,
    pub(super) watches: Vec<WatchState>,
    pub(super) environments: Vec<EnvironmentState>,
    /// Departed pods of namespaces whose labels are not known yet, with the first revision without each.
    unattributed: VecDeque<(Departure, Revision)>,
}

/// Maximum number of departed pods of namespaces whose labels are not known; the oldest are dropped.
const MAX_UNATTRIBUTED: usize = 1_000;

pub(super) struct Composed {
    pub(super) snapshot: Snapshot,
    /// Revision of the whole live set when the snapshot was taken.
    pub(super) set: Revision,
    pub(super) contents: Contents,
}

impl Shared {
    pub(super) fn new(
        plan: &Plan,
        scope: &Scope,
        client: Client,
        track_departed: TrackDeparted,
        timing: &DaemonTiming,
        registry: &mut Registry,
    ) -> Self {
        let selections = plan.environments.iter().map(|e| e.selection.clone()).collect();
        let watch = |target| WatchState::new(target, timing.reminder_interval);
        let watches: Vec<WatchState> = match scope {
            Scope::Cluster => {
                let by_labels = plan.environments.iter().any(|e| e.selection.has_label_selector());
                let namespaces = by_labels.then_some(WatchTarget::Namespaces);
                [WatchTarget::Pods(None)].into_iter().chain(namespaces).map(watch).collect()
            }
            Scope::Namespaces(names) => {
                names.iter().cloned().map(Some).map(WatchTarget::Pods).map(watch).collect()
            }
        };
        let new = |config: &EnvironmentConfig| EnvironmentState::new(config, &watches, track_departed);
        let environments: Vec<_> = plan.environments.iter().map(new).collect();
        let live_set = LiveSet::new(selections, plan.counting);
        Self {
            changed: environments.iter().map(|_| Notify::new()).collect(),
            state: Mutex::new(State { live_set, watches, environments, unattributed: VecDeque::new() }),
            list_completed: Notify::new(),
            plan: plan.clone(),
            client,
            metrics: Metrics::new(registry),
        }
    }

    pub(super) fn targets(&self) -> Vec<WatchTarget> {
        self.lock().watches.iter().map(|watch| watch.target.clone()).collect()
    }

    /// Applies an event of watch `n`, which watches namespaces. The labels of a deleted namespace are kept: its last pods
    /// may depart later.
    pub(super) fn apply_namespace(&self, n: usize, event: WatchEvent<NamespaceView>) {
        let mut state = self.lock();
        let State { live_set, watches, environments, unattributed } = &mut *state;
        let Some(watch) = watches.get_mut(n) else { return };
        match event {
            WatchEvent::ListStarted => {
                watch.list_started(Instant::now());
                live_set.begin_namespaces();
            }
            WatchEvent::Applied(Ok(namespace)) => {
                live_set.apply_namespace(&namespace);
                let is_known = |departure: &Departure| *departure.artifact.namespace == *namespace.name;
                for (departure, left) in unattributed.iter().filter(|(departure, _)| is_known(departure)) {
                    for (n, environment) in environments.iter_mut().enumerate() {
                        // Other environments recorded it when it departed.
                        let selected = live_set.selected_since(n, &namespace.name);
                        if let Some(selected) = selected.filter(|selected| *selected > departure.since) {
                            environment.record_departure(departure, *left, selected);
                        }
                    }
                }
                unattributed.retain(|(departure, _)| !is_known(departure));
            }
            WatchEvent::Applied(Err(Unreadable { namespace, problem, .. })) => {
                live_set.add_unreadable_namespace(namespace.as_deref());
                reset_views(environments);
                watch.warn_unreadable(&intake::namespace_warning(&problem), Instant::now());
            }
            WatchEvent::Deleted(NamespaceView { name, .. })
            | WatchEvent::DeletedByName(PodName { namespace: name, .. }) => live_set.remove_namespace(&name),
            WatchEvent::Complete => {
                let was_listed = watch.is_listed(live_set);
                let diff = live_set.complete_namespaces();
                reset_views(environments);
                watch.list_completed(was_listed, diff, Instant::now(), &self.metrics);
            }
            event => self.track(&mut state, n, event),
        }
    }

    /// Applies an event of watch `n`, which watches pods.
    pub(super) fn apply(&self, n: usize, event: WatchEvent) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(watch) = state.watches.get_mut(n) else { return };
        let WatchTarget::Pods(scope) = watch.target.clone() else { return };
        let scope = scope.as_ref();
        let live_set = &mut state.live_set;
        match event {
            WatchEvent::ListStarted => {
                watch.list_started(Instant::now());
                live_set.begin(scope);
            }
            WatchEvent::Applied(pod) => {
                let added = intake::add(&self.plan, live_set, scope, pod);
                if let Some(problem) = added.problem {
                    reset_views(&mut state.environments);
                    watch.warn_unreadable(&intake::warning(&problem), Instant::now());
                }
                state.record_departures(added.departures);
            }
            WatchEvent::Deleted(pod) if self.plan.excludes(&pod) => {}
            WatchEvent::Deleted(pod) => {
                let departure = live_set.remove(scope, &pod);
                state.record_departures(departure);
            }
            WatchEvent::DeletedByName(PodName { namespace, name }) => {
                let departure = live_set.remove_named(scope, &namespace, &name);
                state.record_departures(departure);
            }
            WatchEvent::Complete => {
                let mut departures = Vec::new();
                let was_listed = live_set.is_listed(scope);
                let diff = live_set.complete(scope, |departure| departures.push(departure));
                reset_views(&mut state.environments);
                watch.list_completed(was_listed, diff, Instant::now(), &self.metrics);
                state.record_departures(departures);
                self.list_completed.notify_one();
            }
            event => self.track(state, n, event),
        }
    }

    /// Records an event that does not depend on the watched objects.
    fn track<V>(&self, state: &mut State, n: usize, event: WatchEvent<V>) {
        let State { live_set, watches, environments, .. } = state;
        let Some(watch) = watches.get_mut(n) else { return };
        match event {
            WatchEvent::Contact(at) => watch.record_contact(at),
            WatchEvent::State(state) => watch.state = state,
            WatchEvent::Event(kind) => {
                if kind != EventType::Error {
                    watch.record_event(Instant::now());
                }
                self.metrics.watch_events.get_or_create(&[("type", kind.as_str())]).inc();
            }
            WatchEvent::Restart(reason) => watch.record_restart(reason, &self.metrics),
            WatchEvent::Failed { error, retry_in } => {
                watch.record_failure(&error, retry_in, Instant::now());
            }
            WatchEvent::CaughtUp => {
                for (environment_n, (environment, changed)) in
                    environments.iter().zip(&self.changed).enumerate()
                {
                    if environment.has_changed(environment_n, live_set) && environment.watches.contains(&n) {
                        changed.notify_one();
                    }
                }
            }
            WatchEvent::ListStarted
            | WatchEvent::Applied(_)
            | WatchEvent::Deleted(_)
            | WatchEvent::DeletedByName(_)
            | WatchEvent::Complete => {}
        }
    }

    /// Waits until the reporter of an environment must run.
    pub(super) async fn changed(&self, environment: usize) {
        match self.changed.get(environment) {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn list_completed(&self) {
        self.list_completed.notified().await;
    }

    /// The watch of an environment with the oldest contact.
    pub(super) fn stalest_watch(&self, n: usize) -> Option<String> {
        let state = self.lock();
        let needed = state.environments.get(n)?.watches.iter().filter_map(|watch| state.watches.get(*watch));
        needed.min_by_key(|watch| watch.contact).map(WatchState::to_string)
    }

    /// The current view of an environment, and why it is not confirmed.
    pub(super) fn view(&self, n: usize) -> (View, Option<Withheld>) {
        // After a panic the live set may be inconsistent; the process is about to end.
        let is_whole = !self.state.is_poisoned();
        let mut state = self.lock();
        let State { live_set, watches, environments, .. } = &mut *state;
        let revision = live_set.revision(n);
        let unknown = |knowledge| (View { revision, knowledge, has_departed_pods: false }, None);
        let Some(environment) = environments.get_mut(n) else { return unknown(Knowledge::Unlisted) };
        environment.last_view = None;
        let needed = || environment.watches.iter().filter_map(|watch| watches.get(*watch));
        if !is_whole || needed().any(|watch| !watch.is_listed(live_set)) {
            return unknown(Knowledge::Unlisted);
        }
        let contact = needed().filter_map(|watch| watch.contact).min();
        let has_departed_pods = environment.has_departed_pods();
        let withheld = environment.confirm(n, live_set);
        // The lookup has not completed yet.
        if let Some(Withheld::Unconfirmed(name)) = &withheld
            && !environment.existence.contains_key(name)
        {
            return unknown(Knowledge::Unlisted);
        }
        let knowledge = match (contact, &withheld) {
            (_, Some(_)) => Knowledge::Unconfirmed,
            (Some(contact), None) => {
                environment.last_view = Some((revision, has_departed_pods));
                Knowledge::Contact(contact)
            }
            (None, None) => Knowledge::Unlisted,
        };
        (View { revision, knowledge, has_departed_pods }, withheld)
    }

    pub(super) fn compose(&self, n: usize, includes_departed_pods: bool) -> Composed {
        let state = self.lock();
        let departed_pods = state.environments.get(n).and_then(|e| e.departed_pods.as_ref());
        let departed =
            departed_pods.filter(|_| includes_departed_pods).map(DepartedPods::artifacts).unwrap_or_default();
        let contents = if departed.is_empty() { Contents::Running } else { Contents::RunningAndDeparted };
        Composed { snapshot: state.live_set.snapshot(n, departed), set: state.live_set.latest(), contents }
    }

    /// Records that a report of revision `set` was accepted.
    pub(super) fn accepted(&self, n: usize, set: Revision, contents: Contents) {
        if let Some(departed_pods) =
            self.lock().environments.get_mut(n).and_then(|e| e.departed_pods.as_mut())
        {
            departed_pods.report_accepted(set, contents);
        }
    }

    pub(super) fn departed_pods(&self, n: usize) -> usize {
        self.lock().environments.get(n).and_then(|e| e.departed_pods.as_ref()).map_or(0, DepartedPods::len)
    }

    pub(super) fn dropped_pods(&self, n: usize) -> u64 {
        let state = self.lock();
        let departed_pods = state.environments.get(n).and_then(|e| e.departed_pods.as_ref());
        departed_pods.map_or(0, |departed_pods| departed_pods.counts().dropped)
    }

    pub(super) fn update_reports(&self, n: usize, update: impl FnOnce(&mut ReportState)) {
        if let Some(environment) = self.lock().environments.get_mut(n) {
            update(&mut environment.reports);
        }
    }

    /// The named namespaces whose list is complete and empty and that are not known to exist.
    pub(super) fn namespaces_to_look_up(&self) -> BTreeSet<NamespaceName> {
        let state = self.lock();
        let State { live_set, watches, environments, .. } = &*state;
        let unconfirmed = environments.iter().filter(|environment| {
            !environment.is_confirmed && environment.config.empty == Emptiness::Withheld
        });
        let named = unconfirmed.flat_map(|environment| {
            let names = environment.config.selection.names().iter();
            names.filter(|name| environment.existence_of(name, live_set) != Existence::Exists)
        });
        let is_listed = |name: &NamespaceName| {
            let covers = |watch: &&WatchState| match &watch.target {
                WatchTarget::Pods(scope) => scope.as_ref().is_none_or(|scope| scope == name),
                WatchTarget::Namespaces => false,
            };
            watches.iter().find(covers).is_some_and(|watch| watch.is_listed(live_set))
        };
        named.filter(|name| is_listed(name)).cloned().collect()
    }

    pub(super) fn set_existence(&self, name: &NamespaceName, existence: Existence) {
        let mut state = self.lock();
        for (environment, changed) in state.environments.iter_mut().zip(&self.changed) {
            if environment.config.selection.names().contains(name) {
                environment.existence.insert(name.clone(), existence);
                changed.notify_one();
            }
        }
    }

    pub(super) fn measure(&self, now: Instant) {
        let state = self.lock();
        let rotations = &self.metrics.token_rotations;
        rotations.inc_by(self.client.token_rotations().saturating_sub(rotations.get()));
        for watch in &state.watches {
            watch.measure(&self.metrics, now);
        }
        for (n, environment) in state.environments.iter().enumerate() {
            environment.measure(&state.live_set.tally(n), &self.metrics, now);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record_departures(&mut self, departures: impl IntoIterator<Item = Departure>) {
        let left = self.live_set.latest();
        for departure in departures {
            let namespace = &*departure.artifact.namespace;
            for (n, environment) in self.environments.iter_mut().enumerate() {
                if let Some(selected) = self.live_set.selected_since(n, namespace) {
                    environment.record_departure(&departure, left, selected);
                }
            }
            if self.live_set.awaits_labels(namespace) {
                self.unattributed.push_back((departure, left));
                if self.unattributed.len() > MAX_UNATTRIBUTED
                    && let Some((oldest, _)) = self.unattributed.pop_front()
                {
                    self.environments.iter_mut().for_each(|environment| environment.record_dropped(&oldest));
                }
            }
        }
    }
}

/// Makes every reporter run again: whether its environment may be reported may have changed.
fn reset_views(environments: &mut [EnvironmentState]) {
    for environment in environments {
        environment.last_view = None;
    }
}
