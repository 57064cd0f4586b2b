//! What is known of one watch, and what an operator is told of it.

use std::fmt;
use std::time::{Duration, Instant};

use super::metrics::{self, Metrics};
use crate::agent::counted;
use crate::agent::intake::{self, MAX_NAMED};
use crate::cluster;
use crate::domain::failure_log::{Outage, Say};
use crate::domain::live::live_set::Swept;
use crate::domain::live::watch::{Restart, State};
use crate::domain::model::NamespaceName;
use crate::process::error_causes;

/// One watch.
#[derive(Debug)]
pub(super) struct Watched {
    /// The namespace that it covers; `None`: the cluster.
    pub(super) of: Option<NamespaceName>,
    pub(super) state: State,
    /// When the set was last known to be what the API server holds.
    pub(super) contact: Option<Instant>,
    began: Instant,
    /// The list that is being read was asked for although nothing was lost.
    is_routine: bool,
    remind: Duration,
    /// Lists that fail, and watches that do: that one works says nothing of the other.
    lists: Outage,
    watches: Outage,
    /// Failures that something else is tried for at once, since the last event.
    at_once: u32,
    unreadable: Unreadable,
}

/// Pods that cannot be read, named one by one up to a number a minute.
#[derive(Debug)]
struct Unreadable {
    since: Instant,
    named: u32,
}

/// So many failures in a row may be details: two watches that are silent, and the list that follows.
const MOST_AT_ONCE: u32 = 3;

impl Watched {
    pub(super) fn new(of: Option<NamespaceName>, remind: Duration) -> Self {
        Self {
            of,
            state: State::Waiting,
            contact: None,
            began: Instant::now(),
            is_routine: false,
            lists: Outage::new(remind),
            watches: Outage::new(remind),
            at_once: 0,
            remind,
            unreadable: Unreadable { since: Instant::now(), named: 0 },
        }
    }

    /// A list begins.
    pub(super) fn begins(&mut self, now: Instant) {
        self.began = now;
    }

    /// A list is complete.
    pub(super) fn is_complete(&mut self, was_listed: bool, swept: Swept, now: Instant, metrics: &Metrics) {
        self.over(State::Listing, now);
        let seconds = now.saturating_duration_since(self.began).as_secs_f64();
        let Swept { came, differed, went } = swept;
        if !was_listed {
            tracing::info!(
                watch = self.label(),
                pods = came,
                seconds,
                "{self}: {} listed in {seconds:.1} s",
                counted(came, "pod")
            );
            return;
        }
        let differences = came + differed + went;
        tracing::debug!(
            "{self}: listed again in {seconds:.1} s; {came} came, {differed} differ, {went} went"
        );
        if std::mem::take(&mut self.is_routine) {
            metrics.relist_differences.get_or_create(&self.metric()).inc_by(differences);
        }
    }

    /// The set is what the API server holds, or was then.
    pub(super) fn contact(&mut self, at: Instant) {
        self.contact = Some(at);
    }

    /// A watch brought something.
    pub(super) fn event(&mut self, now: Instant) {
        self.at_once = 0;
        self.over(State::Watching, now);
    }

    fn over(&mut self, works: State, now: Instant) {
        if let Some((failures, lasted)) = self.outage_of(works).over(now) {
            let (what, seconds) = (said(works), lasted.as_secs_f64());
            tracing::info!(
                watch = self.label(),
                failures,
                seconds,
                "{self}: back after {lasted:.0?} and {} of its {what}",
                counted(failures, "failure")
            );
        }
    }

    fn outage_of(&mut self, what: State) -> &mut Outage {
        if what == State::Watching { &mut self.watches } else { &mut self.lists }
    }

    /// It begins again.
    pub(super) fn restarts(&mut self, reason: Restart, metrics: &Metrics) {
        self.is_routine = reason == Restart::Relist && self.failing().is_none();
        let label = metrics::Restart { watch: self.label().to_owned(), reason: reason.as_str() };
        metrics.watch_restarts.get_or_create(&label).inc();
        tracing::debug!("{self}: begins again, {}", reason.as_str());
    }

    /// A request or its answer failed. What is answered by something else at once (a streaming list that
    /// is refused, a watch that expired) is a detail, unless it comes again and again; what has to wait is
    /// an outage.
    pub(super) fn failed(&mut self, error: &cluster::Error, again_in: Duration, now: Instant) {
        let words = error_causes::said_once(error).join(": ");
        self.at_once += u32::from(again_in.is_zero());
        if again_in.is_zero() && self.at_once <= MOST_AT_ONCE {
            tracing::debug!("{self}: {words}");
            return;
        }
        let state = self.state;
        let say = self.outage_of(state).failed(&words, now);
        let watch = self.label();
        match say {
            Say::This => {
                tracing::warn!(
                    watch,
                    "{self}: {}; trying again",
                    error_causes::with_hint(&words, error.hint())
                );
            }
            Say::Still(failures, lasted) => tracing::warn!(
                watch,
                failures,
                seconds = lasted.as_secs_f64(),
                "{self}: still failing after {failures} tries in {lasted:.0?}: {words}"
            ),
            Say::Nothing => tracing::debug!("{self}: {words}; trying again in {again_in:.1?}"),
        }
    }

    /// An item could not be read.
    pub(super) fn unreadable(&mut self, problem: &str, now: Instant) {
        let unreadable = &mut self.unreadable;
        if now.saturating_duration_since(unreadable.since) >= self.remind {
            *unreadable = Unreadable { since: now, named: 0 };
        }
        unreadable.named += 1;
        let warning = intake::warning(problem);
        if unreadable.named <= MAX_NAMED {
            tracing::warn!(watch = self.label(), "{warning}");
        } else {
            tracing::debug!("{warning}");
        }
    }

    /// Why it failed last, while it fails.
    pub(super) fn failing(&self) -> Option<&str> {
        self.lists.words().or(self.watches.words())
    }

    pub(super) fn measure(&self, metrics: &Metrics, now: Instant) {
        for state in State::ALL {
            let label = metrics::WatchState { watch: self.label().to_owned(), state: state.as_str() };
            metrics.watch_state.get_or_create(&label).set(i64::from(state == self.state));
        }
        // A series that begins above 0 has no increase for an alert to see.
        metrics.relist_differences.get_or_create(&self.metric()).inc_by(0);
        if let Some(contact) = self.contact {
            let silence = now.saturating_duration_since(contact).as_secs_f64();
            metrics.watch_silence.get_or_create(&self.metric()).set(silence);
        }
    }

    /// `cluster`, or the namespace. A cluster is watched alone, so that one never stands beside a namespace
    /// of that name.
    pub(super) fn label(&self) -> &str {
        self.of.as_ref().map_or("cluster", NamespaceName::as_str)
    }

    fn metric(&self) -> metrics::Watch {
        metrics::Watch { watch: self.label().to_owned() }
    }
}

/// What fails in a state.
fn said(state: State) -> &'static str {
    if state == State::Watching { "watch" } else { "list" }
}

/// `the cluster`, `the namespace "a"`.
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            None => f.write_str("the cluster"),
            Some(name) => write!(f, "the namespace \"{name}\""),
        }
    }
}
