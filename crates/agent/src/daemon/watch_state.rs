//! State of one watch, and its log lines and metrics.
//!
//! `shared` keeps one per watch and calls it for every event.

use std::fmt;
use std::time::{Duration, Instant};

use super::metrics::{self, Metrics};
use crate::cluster;
use crate::intake::MAX_NAMED;
use crate::live::live_set::{LiveSet, RelistDiff};
use crate::live::watch::{RestartReason, State};
use model::failure_log::{FailureLog, LogAction};
use model::{NamespaceName, pluralize};
use runtime::error_causes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchTarget {
    /// The pods of a namespace, or of the whole cluster.
    Pods(Option<NamespaceName>),
    Namespaces,
}

#[derive(Debug)]
pub(super) struct WatchState {
    pub(super) target: WatchTarget,
    pub(super) state: State,
    /// When the live set was last known to match the API server.
    pub(super) contact: Option<Instant>,
    list_started: Instant,
    /// The current list is a periodic relist, not the recovery from a failure.
    is_routine: bool,
    reminder_interval: Duration,
    /// Separate logs for lists and watches: a list may succeed while every watch fails.
    list_failures: FailureLog,
    watch_failures: FailureLog,
    /// Failures since the last event that were followed by another request without delay.
    immediate_retries: u32,
    unreadable: UnreadableWarnings,
}

/// Limits the warnings about unreadable pods.
#[derive(Debug)]
struct UnreadableWarnings {
    since: Instant,
    named: u32,
}

/// Maximum number of consecutive failures with an immediate retry that are logged at debug level: two silent
/// watches, and the list that follows.
const MAX_IMMEDIATE_RETRIES: u32 = 3;

impl WatchState {
    pub(super) fn new(target: WatchTarget, reminder_interval: Duration) -> Self {
        Self {
            target,
            state: State::Waiting,
            contact: None,
            list_started: Instant::now(),
            is_routine: false,
            list_failures: FailureLog::new(reminder_interval),
            watch_failures: FailureLog::new(reminder_interval),
            immediate_retries: 0,
            reminder_interval,
            unreadable: UnreadableWarnings { since: Instant::now(), named: 0 },
        }
    }

    /// Whether its first list is complete.
    pub(super) fn is_listed(&self, live_set: &LiveSet) -> bool {
        match &self.target {
            WatchTarget::Pods(scope) => live_set.is_listed(scope.as_ref()),
            WatchTarget::Namespaces => live_set.are_namespaces_listed(),
        }
    }

    pub(super) fn list_started(&mut self, now: Instant) {
        self.list_started = now;
    }

    /// Logs a complete list; `was_listed` is false for the first one.
    pub(super) fn list_completed(
        &mut self,
        was_listed: bool,
        diff: RelistDiff,
        now: Instant,
        metrics: &Metrics,
    ) {
        self.log_recovery(State::Listing, now);
        let seconds = now.saturating_duration_since(self.list_started).as_secs_f64();
        let RelistDiff { added, changed, removed } = diff;
        if !was_listed {
            let watch = self.label();
            if self.target == WatchTarget::Namespaces {
                tracing::info!(
                    watch,
                    namespaces = added,
                    seconds,
                    "{self}: {added} listed in {seconds:.1} s"
                );
            } else {
                let pods = pluralize(added, "pod");
                tracing::info!(watch, pods = added, seconds, "{self}: {pods} listed in {seconds:.1} s");
            }
            return;
        }
        let differences = added + changed + removed;
        tracing::debug!(
            "{self}: relisted in {seconds:.1} s: {added} added, {changed} changed, {removed} removed"
        );
        if std::mem::take(&mut self.is_routine) {
            metrics.relist_differences.get_or_create(&self.metric()).inc_by(differences);
        }
    }

    /// Records that the live set matched the API server.
    pub(super) fn record_contact(&mut self, at: Instant) {
        self.contact = Some(at);
    }

    pub(super) fn record_event(&mut self, now: Instant) {
        self.immediate_retries = 0;
        self.log_recovery(State::Watching, now);
    }

    fn log_recovery(&mut self, state: State, now: Instant) {
        if let Some((failures, lasted)) = self.failures(state).recovered(now) {
            let (operation, seconds) = (operation(state), lasted.as_secs_f64());
            tracing::info!(
                watch = self.label(),
                failures,
                seconds,
                "{self}: recovered after {} of its {operation} in {lasted:.0?}",
                pluralize(failures, "failure")
            );
        }
    }

    fn failures(&mut self, state: State) -> &mut FailureLog {
        if state == State::Watching { &mut self.watch_failures } else { &mut self.list_failures }
    }

    pub(super) fn record_restart(&mut self, reason: RestartReason, metrics: &Metrics) {
        self.is_routine = reason == RestartReason::Relist && self.last_failure().is_none();
        let label = metrics::labels([("watch", self.label()), ("reason", reason.as_str())]);
        metrics.watch_restarts.get_or_create(&label).inc();
        tracing::debug!("{self}: restarting: {}", reason.as_str());
    }

    /// Logs a failed request. A failure with an immediate retry (a rejected streaming list, an expired
    /// watch) is logged at debug level unless it repeats; a failure with a delay is a warning.
    pub(super) fn record_failure(&mut self, error: &cluster::Error, retry_in: Duration, now: Instant) {
        let cause = error_causes::describe(error);
        self.immediate_retries += u32::from(retry_in.is_zero());
        if retry_in.is_zero() && self.immediate_retries <= MAX_IMMEDIATE_RETRIES {
            tracing::debug!("{self}: {cause}");
            return;
        }
        let state = self.state;
        let action = self.failures(state).failed(&cause, now);
        let watch = self.label();
        match action {
            LogAction::New => {
                tracing::warn!(watch, "{self}: {}; retrying", error_causes::with_hint(&cause, error.hint()));
            }
            LogAction::Ongoing(failures, lasted) => tracing::warn!(
                watch,
                failures,
                seconds = lasted.as_secs_f64(),
                "{self}: still failing after {failures} attempts in {lasted:.0?}: {cause}"
            ),
            LogAction::Suppress => tracing::debug!("{self}: {cause}; retrying in {retry_in:.1?}"),
        }
    }

    /// Logs a warning of an unreadable object, at most [`MAX_NAMED`] times per reminder interval.
    pub(super) fn warn_unreadable(&mut self, warning: &str, now: Instant) {
        let unreadable = &mut self.unreadable;
        if now.saturating_duration_since(unreadable.since) >= self.reminder_interval {
            *unreadable = UnreadableWarnings { since: now, named: 0 };
        }
        unreadable.named += 1;
        if unreadable.named <= MAX_NAMED {
            tracing::warn!(watch = self.label(), "{warning}");
        } else {
            tracing::debug!("{warning}");
        }
    }

    /// The cause of the current outage.
    pub(super) fn last_failure(&self) -> Option<&str> {
        self.list_failures.message().or(self.watch_failures.message())
    }

    pub(super) fn measure(&self, metrics: &Metrics, now: Instant) {
        for state in State::ALL {
            let label = metrics::labels([("watch", self.label()), ("state", state.as_str())]);
            metrics.watch_state.get_or_create(&label).set(i64::from(state == self.state));
        }
        // Starts the series at 0: an alert on its increase misses a first value above 0.
        metrics.relist_differences.get_or_create(&self.metric()).inc_by(0);
        if let Some(contact) = self.contact {
            let silence = now.saturating_duration_since(contact).as_secs_f64();
            metrics.watch_silence.get_or_create(&self.metric()).set(silence);
        }
    }

    /// `cluster`, `namespaces`, or the namespace. Unambiguous, because a watch of the cluster is the only watch of pods.
    pub(super) fn label(&self) -> &str {
        match &self.target {
            WatchTarget::Pods(scope) => scope.as_ref().map_or("cluster", NamespaceName::as_str),
            WatchTarget::Namespaces => "namespaces",
        }
    }

    fn metric(&self) -> metrics::Labels<1> {
        metrics::labels([("watch", self.label())])
    }
}

/// The request that fails in this state.
fn operation(state: State) -> &'static str {
    if state == State::Watching { "watch" } else { "list" }
}

/// `the cluster`, `the namespace "a"`, `the namespaces`.
impl fmt::Display for WatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            WatchTarget::Pods(None) => f.write_str("the cluster"),
            WatchTarget::Pods(Some(name)) => write!(f, "the namespace \"{name}\""),
            WatchTarget::Namespaces => f.write_str("the namespaces"),
        }
    }
}
