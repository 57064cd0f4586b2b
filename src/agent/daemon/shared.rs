//! What the tasks of the daemon share: the live set, and what is known of each watch and environment.
//!
//! Watches write into it, environments take snapshots of it, probes and scrapes look at it. The lock is
//! held for as long as one of these takes, and never while anything is waited for.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::environment_state::{Reported, Standing};
use super::metrics::{self, Metrics};
use super::timing::{Policy, Witnessing};
use super::watch_state::Watched;
use crate::agent::{Plan, intake};
use crate::api::Client;
use crate::cluster::{EventType, Heard, PodName};
use crate::domain::live::cadence::{Knowledge, View};
use crate::domain::live::confirmation::{Emptiness, Existence, Withheld};
use crate::domain::live::departed_pods::{Carried, Witness};
use crate::domain::live::departure::{Departure, Revision};
use crate::domain::live::live_set::{Roster, Snapshot};
use crate::domain::live::selection::Scope;
use crate::domain::model::NamespaceName;

/// All of it.
pub(super) struct Shared {
    state: Mutex<State>,
    /// One for each environment: there is something that its task should look at.
    changed: Vec<Notify>,
    /// A first list is complete: there may be namespaces to look up.
    listed: Notify,
    plan: Plan,
    client: Client,
    pub(super) metrics: Metrics,
}

/// What changes.
pub(super) struct State {
    pub(super) roster: Roster,
    pub(super) watches: Vec<Watched>,
    pub(super) environments: Vec<Standing>,
}

/// What a report is made of.
pub(super) struct Composed {
    pub(super) snapshot: Snapshot,
    /// The revision of the whole set: every pod in it, and every pod that had left it, is older.
    pub(super) set: Revision,
    pub(super) carried: Carried,
}

impl Shared {
    pub(super) fn new(
        plan: &Plan,
        scope: &Scope,
        client: Client,
        witnessing: Witnessing,
        policy: &Policy,
    ) -> Self {
        let selections = plan.environments.iter().map(|e| e.selection.clone()).collect();
        let watches: Vec<Watched> = match scope {
            Scope::Cluster => vec![Watched::new(None, policy.remind)],
            Scope::Namespaces(names) => {
                names.iter().map(|name| Watched::new(Some(name.clone()), policy.remind)).collect()
            }
        };
        let standing = |environment| Standing::new(environment, &watches, witnessing);
        let environments: Vec<_> = plan.environments.iter().map(standing).collect();
        Self {
            changed: environments.iter().map(|_| Notify::new()).collect(),
            state: Mutex::new(State {
                roster: Roster::new(selections, plan.counting),
                watches,
                environments,
            }),
            listed: Notify::new(),
            plan: plan.clone(),
            client,
            metrics: Metrics::default(),
        }
    }

    /// How many watches there are.
    pub(super) fn watches(&self) -> usize {
        self.lock().watches.len()
    }

    /// What a watch covers.
    pub(super) fn scope_of(&self, watch: usize) -> Option<NamespaceName> {
        self.lock().watches.get(watch).and_then(|watched| watched.of.clone())
    }

    /// Takes in what a watch heard.
    pub(super) fn hear(&self, watch: usize, heard: Heard) {
        let mut state = self.lock();
        let State { roster, watches, environments } = &mut *state;
        let Some(watched) = watches.get_mut(watch) else { return };
        let of = watched.of.clone();
        let of = of.as_ref();
        match heard {
            Heard::Begin => {
                watched.begins(Instant::now());
                roster.begin(of);
            }
            Heard::Pod(pod) => {
                let added = intake::add(&self.plan, roster, of, pod);
                if let Some(problem) = added.problem {
                    look_again(environments);
                    watched.unreadable(&problem, Instant::now());
                }
                for departure in added.departures {
                    depart(environments, &departure, roster.latest());
                }
            }
            Heard::Gone(pod) if self.plan.leaves_out(&pod) => {}
            Heard::Gone(pod) => {
                if let Some(departure) = roster.remove(of, &pod) {
                    depart(environments, &departure, roster.latest());
                }
            }
            Heard::GoneByName(PodName { namespace, name }) => {
                if let Some(departure) = roster.remove_named(of, &namespace, &name) {
                    depart(environments, &departure, roster.latest());
                }
            }
            Heard::Complete => {
                let mut departures = Vec::new();
                let was_listed = roster.is_listed(of);
                let swept = roster.complete(of, |departure| departures.push(departure));
                let left = roster.latest();
                for departure in departures {
                    depart(environments, &departure, left);
                }
                look_again(environments);
                watched.is_complete(was_listed, swept, Instant::now(), &self.metrics);
                self.listed.notify_one();
            }
            Heard::Contact(at) => watched.contact(at),
            Heard::State(state) => watched.state = state,
            Heard::Event(kind) => {
                if kind != EventType::Error {
                    watched.event(Instant::now());
                }
                self.metrics.watch_events.get_or_create(&metrics::Event { r#type: kind.as_str() }).inc();
            }
            Heard::Restart(reason) => watched.restarts(reason, &self.metrics),
            Heard::Failed { error, again_in } => watched.failed(&error, again_in, Instant::now()),
            Heard::Settled => {
                for (n, (environment, changed)) in environments.iter().zip(&self.changed).enumerate() {
                    if environment.has_news(n, roster) && environment.watches.contains(&watch) {
                        changed.notify_one();
                    }
                }
            }
        }
    }

    /// Waits until there is something that an environment's task should look at.
    pub(super) async fn changed(&self, environment: usize) {
        match self.changed.get(environment) {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until a list is complete.
    pub(super) async fn listed(&self) {
        self.listed.notified().await;
    }

    /// The watch of an environment that was not heard for the longest time.
    pub(super) fn stalest(&self, n: usize) -> Option<String> {
        let state = self.lock();
        let needed = state.environments.get(n)?.watches.iter().filter_map(|watch| state.watches.get(*watch));
        needed.min_by_key(|watched| watched.contact).map(Watched::to_string)
    }

    /// What is known of an environment now, and why it is withheld where it has to be confirmed.
    pub(super) fn view(&self, n: usize) -> (View, Option<Withheld>) {
        // After a panic amid a change nobody knows what the set is; the process is about to end.
        let is_whole = !self.state.is_poisoned();
        let mut state = self.lock();
        let State { roster, watches, environments } = &mut *state;
        let revision = roster.revision(n);
        let unknown = |knowledge| (View { revision, knowledge, witnessed: false }, None);
        let Some(environment) = environments.get_mut(n) else { return unknown(Knowledge::Unlisted) };
        environment.looked_at = None;
        let needed = || environment.watches.iter().filter_map(|watch| watches.get(*watch));
        if !is_whole || needed().any(|watched| !roster.is_listed(watched.of.as_ref())) {
            return unknown(Knowledge::Unlisted);
        }
        let contact = needed().filter_map(|watched| watched.contact).min();
        let witnessed = environment.has_witnessed();
        let withheld = environment.confirm(n, roster);
        // It will be asked for at once. Until then this is no more than what was not asked.
        if let Some(Withheld::Unconfirmed(name)) = &withheld
            && !environment.existence.contains_key(name)
        {
            return unknown(Knowledge::Unlisted);
        }
        let knowledge = match (contact, &withheld) {
            (_, Some(_)) => Knowledge::Unconfirmed,
            (Some(contact), None) => {
                environment.looked_at = Some((revision, witnessed));
                Knowledge::Contact(contact)
            }
            (None, None) => Knowledge::Unlisted,
        };
        (View { revision, knowledge, witnessed }, withheld)
    }

    /// What an environment would report now, with the pods to witness or without.
    pub(super) fn compose(&self, n: usize, takes_witnessed: bool) -> Composed {
        let state = self.lock();
        let witness = state.environments.get(n).and_then(|e| e.witness.as_ref());
        let witnessed = witness.filter(|_| takes_witnessed).map(Witness::artifacts).unwrap_or_default();
        let carried = if witnessed.is_empty() { Carried::Nothing } else { Carried::Witnessed };
        Composed { snapshot: state.roster.snapshot(n, witnessed), set: state.roster.latest(), carried }
    }

    /// A report of this state of the set was accepted.
    pub(super) fn accepted(&self, n: usize, set: Revision, carried: Carried) {
        if let Some(witness) = self.lock().environments.get_mut(n).and_then(|e| e.witness.as_mut()) {
            witness.accepted(set, carried);
        }
    }

    /// How many pods to witness an environment has.
    pub(super) fn witnessed(&self, n: usize) -> usize {
        self.lock().environments.get(n).and_then(|e| e.witness.as_ref()).map_or(0, Witness::len)
    }

    /// How many pods its witness lost.
    pub(super) fn lost(&self, n: usize) -> u64 {
        let state = self.lock();
        let witness = state.environments.get(n).and_then(|e| e.witness.as_ref());
        witness.map_or(0, |witness| witness.counts().lost)
    }

    /// How an environment's reports go, for scrapes.
    pub(super) fn tell(&self, n: usize, tell: impl FnOnce(&mut Reported)) {
        if let Some(environment) = self.lock().environments.get_mut(n) {
            tell(&mut environment.reported);
        }
    }

    /// The namespaces that have to be looked up: they are named, their list is complete and holds no pod,
    /// and the API server has not said that they exist.
    pub(super) fn to_look_up(&self) -> BTreeSet<NamespaceName> {
        let state = self.lock();
        let State { roster, watches, environments } = &*state;
        let unconfirmed = environments.iter().filter(|environment| {
            !environment.is_confirmed && environment.environment.empty == Emptiness::Withheld
        });
        let named = unconfirmed.flat_map(|environment| {
            let names = environment.environment.selection.names().iter();
            names.filter(|name| environment.existence_of(name, roster) != Existence::Exists)
        });
        let is_listed = |name: &NamespaceName| {
            let of = |watched: &&Watched| watched.of.as_ref().is_none_or(|of| of == name);
            watches.iter().find(of).is_some_and(|watched| roster.is_listed(watched.of.as_ref()))
        };
        named.filter(|name| is_listed(name)).cloned().collect()
    }

    /// What the API server said of a namespace.
    pub(super) fn looked_up(&self, name: &NamespaceName, existence: Existence) {
        let mut state = self.lock();
        for (environment, changed) in state.environments.iter_mut().zip(&self.changed) {
            if environment.environment.selection.names().contains(name) {
                environment.existence.insert(name.clone(), existence);
                changed.notify_one();
            }
        }
    }

    /// Sets the metrics that are a state.
    pub(super) fn measure(&self, now: Instant) {
        let state = self.lock();
        let rotations = &self.metrics.token_rotations;
        rotations.inc_by(self.client.token_rotations().saturating_sub(rotations.get()));
        for watched in &state.watches {
            watched.measure(&self.metrics, now);
        }
        for (n, environment) in state.environments.iter().enumerate() {
            environment.measure(&state.roster.tally(n), &self.metrics, now);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What decides whether an environment is reported at all may have changed.
fn look_again(environments: &mut [Standing]) {
    for environment in environments {
        environment.looked_at = None;
    }
}

/// Tells the environments that a pod left the set; `left` is the first revision without it.
fn depart(environments: &mut [Standing], departure: &Departure, left: Revision) {
    for environment in environments {
        environment.departed(departure, left);
    }
}
