//! State shared by the tasks of the daemon: the live set, the watches and the environments.
//!
//! Watches write to it; reporters take snapshots; probes and scrapes read it. The lock is never held
//! across an await.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use super::environment_state::{EnvironmentState, ReportState};
use super::metrics::{self, Metrics};
use super::timing::{Timing, TrackDeparted};
use super::watch_state::WatchState;
use crate::agent::{Plan, intake};
use crate::api::Client;
use crate::cluster::{EventType, PodName, WatchEvent};
use crate::domain::live::cadence::{Knowledge, View};
use crate::domain::live::confirmation::{Emptiness, Existence, Withheld};
use crate::domain::live::departed_pods::{Contents, DepartedPods};
use crate::domain::live::departure::{Departure, Revision};
use crate::domain::live::live_set::{LiveSet, Snapshot};
use crate::domain::live::selection::Scope;
use crate::domain::model::NamespaceName;

/// The shared state and its notifications.
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
}

/// The content of a report.
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
        timing: &Timing,
        registry: &mut Registry,
    ) -> Self {
        let selections = plan.environments.iter().map(|e| e.selection.clone()).collect();
        let watches: Vec<WatchState> = match scope {
            Scope::Cluster => vec![WatchState::new(None, timing.reminder_interval)],
            Scope::Namespaces(names) => names
                .iter()
                .map(|name| WatchState::new(Some(name.clone()), timing.reminder_interval))
                .collect(),
        };
        let new = |config| EnvironmentState::new(config, &watches, track_departed);
        let environments: Vec<_> = plan.environments.iter().map(new).collect();
        Self {
            changed: environments.iter().map(|_| Notify::new()).collect(),
            state: Mutex::new(State {
                live_set: LiveSet::new(selections, plan.counting),
                watches,
                environments,
            }),
            list_completed: Notify::new(),
            plan: plan.clone(),
            client,
            metrics: Metrics::new(registry),
        }
    }

    /// Number of watches.
    pub(super) fn watches(&self) -> usize {
        self.lock().watches.len()
    }

    /// The namespace of a watch; `None` is the whole cluster.
    pub(super) fn scope_of(&self, n: usize) -> Option<NamespaceName> {
        self.lock().watches.get(n).and_then(|watch| watch.scope.clone())
    }

    /// Applies an event of watch `n`.
    pub(super) fn apply(&self, n: usize, event: WatchEvent) {
        let mut state = self.lock();
        let State { live_set, watches, environments } = &mut *state;
        let Some(watch) = watches.get_mut(n) else { return };
        let scope = watch.scope.clone();
        let scope = scope.as_ref();
        match event {
            WatchEvent::ListStarted => {
                watch.list_started(Instant::now());
                live_set.begin(scope);
            }
            WatchEvent::Pod(pod) => {
                let added = intake::add(&self.plan, live_set, scope, pod);
                if let Some(problem) = added.problem {
                    reset_views(environments);
                    watch.warn_unreadable(&problem, Instant::now());
                }
                for departure in added.departures {
                    record_departure(environments, &departure, live_set.latest());
                }
            }
            WatchEvent::Deleted(pod) if self.plan.excludes(&pod) => {}
            WatchEvent::Deleted(pod) => {
                if let Some(departure) = live_set.remove(scope, &pod) {
                    record_departure(environments, &departure, live_set.latest());
                }
            }
            WatchEvent::DeletedByName(PodName { namespace, name }) => {
                if let Some(departure) = live_set.remove_named(scope, &namespace, &name) {
                    record_departure(environments, &departure, live_set.latest());
                }
            }
            WatchEvent::Complete => {
                let mut departures = Vec::new();
                let was_listed = live_set.is_listed(scope);
                let diff = live_set.complete(scope, |departure| departures.push(departure));
                let left = live_set.latest();
                for departure in departures {
                    record_departure(environments, &departure, left);
                }
                reset_views(environments);
                watch.list_completed(was_listed, diff, Instant::now(), &self.metrics);
                self.list_completed.notify_one();
            }
            WatchEvent::Contact(at) => watch.record_contact(at),
            WatchEvent::State(state) => watch.state = state,
            WatchEvent::Event(kind) => {
                if kind != EventType::Error {
                    watch.record_event(Instant::now());
                }
                self.metrics.watch_events.get_or_create(&metrics::EventLabel { r#type: kind.as_str() }).inc();
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
        }
    }

    /// Waits until the reporter of an environment must run.
    pub(super) async fn changed(&self, environment: usize) {
        match self.changed.get(environment) {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until a list is complete.
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
        let State { live_set, watches, environments } = &mut *state;
        let revision = live_set.revision(n);
        let unknown = |knowledge| (View { revision, knowledge, has_departed_pods: false }, None);
        let Some(environment) = environments.get_mut(n) else { return unknown(Knowledge::Unlisted) };
        environment.last_view = None;
        let needed = || environment.watches.iter().filter_map(|watch| watches.get(*watch));
        if !is_whole || needed().any(|watch| !live_set.is_listed(watch.scope.as_ref())) {
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

    /// Composes the content of a report.
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

    /// Number of unreported departed pods.
    pub(super) fn departed_pods(&self, n: usize) -> usize {
        self.lock().environments.get(n).and_then(|e| e.departed_pods.as_ref()).map_or(0, DepartedPods::len)
    }

    /// Number of departed pods that were dropped.
    pub(super) fn dropped_pods(&self, n: usize) -> u64 {
        let state = self.lock();
        let departed_pods = state.environments.get(n).and_then(|e| e.departed_pods.as_ref());
        departed_pods.map_or(0, |departed_pods| departed_pods.counts().dropped)
    }

    /// Updates the result of an environment's reports.
    pub(super) fn update_reports(&self, n: usize, update: impl FnOnce(&mut ReportState)) {
        if let Some(environment) = self.lock().environments.get_mut(n) {
            update(&mut environment.reports);
        }
    }

    /// The named namespaces whose list is complete and empty and that are not known to exist.
    pub(super) fn namespaces_to_look_up(&self) -> BTreeSet<NamespaceName> {
        let state = self.lock();
        let State { live_set, watches, environments } = &*state;
        let unconfirmed = environments.iter().filter(|environment| {
            !environment.is_confirmed && environment.config.empty == Emptiness::Withheld
        });
        let named = unconfirmed.flat_map(|environment| {
            let names = environment.config.selection.names().iter();
            names.filter(|name| environment.existence_of(name, live_set) != Existence::Exists)
        });
        let is_listed = |name: &NamespaceName| {
            let covers = |watch: &&WatchState| watch.scope.as_ref().is_none_or(|scope| scope == name);
            watches.iter().find(covers).is_some_and(|watch| live_set.is_listed(watch.scope.as_ref()))
        };
        named.filter(|name| is_listed(name)).cloned().collect()
    }

    /// Records the result of a lookup.
    pub(super) fn set_existence(&self, name: &NamespaceName, existence: Existence) {
        let mut state = self.lock();
        for (environment, changed) in state.environments.iter_mut().zip(&self.changed) {
            if environment.config.selection.names().contains(name) {
                environment.existence.insert(name.clone(), existence);
                changed.notify_one();
            }
        }
    }

    /// Sets the gauges.
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

/// Makes every reporter run again: whether its environment may be reported may have changed.
fn reset_views(environments: &mut [EnvironmentState]) {
    for environment in environments {
        environment.last_view = None;
    }
}

/// Records that a pod departed; `left` is the first revision without it.
fn record_departure(environments: &mut [EnvironmentState], departure: &Departure, left: Revision) {
    for environment in environments {
        environment.record_departure(departure, left);
    }
}
