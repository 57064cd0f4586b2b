//! Decides when one environment reports.
//!
//! The task of an environment in `agent` owns a [`Cadence`], requests the next [`Step`] whenever something
//! changed or the announced time is reached, and carries it out. No other code starts a report. Uses no
//! socket or clock, and never sees a pod or a body.
//!
//! ```text
//! next(view) ── Wait ──────────────────────────────► call again at `until` or after a change
//!            ── Withhold ──────────────────────────► log, call again after a change
//!            ── Send ──► begin(draft) ── Unchanged ► call again
//!                                     ── Upload ───► PUT, then finish(result), then call again
//!            ── Stop ──────────────────────────────► exit
//! ```

mod timing;
mod types;

use std::time::{Duration, Instant};

use super::departed_pods::Contents;
use super::departure::Revision;

use timing::{earliest, is_reached, latest};

use types::Failing;

pub use timing::CadenceTiming;
pub use types::{
    BeginResult, Completion, Draft, Knowledge, SendReason, Step, UploadFailure, UploadResult, View,
    WithholdReason,
};

/// The report schedule of one environment.
#[derive(Debug, Clone)]
pub struct Cadence {
    timing: CadenceTiming,
    seed: u64,
    uploads: u64,
    last_revision: Option<Revision>,
    /// Changes since the last report began.
    pending: Option<Pending>,
    flight: Option<Flight>,
    last_start: Option<Start>,
    accepted: Option<Accepted>,
    /// Hash of the body that the service stores. Unknown after a failed upload of another body, which may
    /// have arrived although its response was lost.
    stored_hash: Option<u64>,
    /// Upload time of the last accepted report, including its follow-up.
    upload_time: Duration,
    failing: Option<Failing>,
    shutdown: Option<Shutdown>,
    was_stale: bool,
    /// Until then, events that were missed while stale may still arrive.
    catch_up_until: Option<Instant>,
}

/// First and last change that no report contains.
#[derive(Debug, Clone, Copy)]
struct Pending {
    first: Instant,
    last: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    draft: Draft,
    start: Instant,
    changes: Option<Pending>,
}

/// Start of the last upload, whatever its result.
#[derive(Debug, Clone, Copy)]
struct Start {
    at: Instant,
    /// Time until the next heartbeat.
    interval: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Accepted {
    revision: Revision,
    contents: Contents,
}

#[derive(Debug, Clone, Copy)]
struct Shutdown {
    deadline: Option<Instant>,
    /// Uploads since the shutdown began, including the one that was in flight then.
    attempts: u32,
    /// Whether the final report was sent, and has not failed in a way that allows a retry.
    is_final_sent: bool,
    /// Earliest time of the next attempt of the final report.
    next_attempt: Option<Instant>,
    is_over: bool,
}

impl Cadence {
    /// The cadence of an environment that has not reported. Different seeds keep environments from
    /// reporting at the same time.
    #[must_use]
    pub fn new(timing: CadenceTiming, seed: u64) -> Self {
        Self {
            timing,
            seed,
            uploads: 0,
            last_revision: None,
            pending: None,
            flight: None,
            last_start: None,
            accepted: None,
            stored_hash: None,
            upload_time: Duration::ZERO,
            failing: None,
            shutdown: None,
            was_stale: false,
            catch_up_until: None,
        }
    }

    /// The next step. Must be called after every change of the view: the debounce counts from this call.
    pub fn next(&mut self, view: &View, now: Instant) -> Step {
        self.track_changes(view, now);
        if self.shutdown.is_some() {
            return self.next_at_shutdown(view, now);
        }
        let stale_at = match self.check_freshness(view, now) {
            Ok(stale_at) => stale_at,
            Err(reason) => {
                self.was_stale |= matches!(reason, WithholdReason::Stale { .. });
                return Step::Withhold { reason };
            }
        };
        if std::mem::take(&mut self.was_stale) {
            // The first event after an outage may be the first of many that were missed.
            self.catch_up_until = now.checked_add(self.timing.debounce);
        }
        if self.flight.is_some() {
            return Step::Wait { until: stale_at };
        }
        let (reason, due) = self.due(now);
        let due = if self.catch_up_until.is_some() { latest(due, self.catch_up_until) } else { due };
        if is_reached(due, now) {
            Step::Send { reason }
        } else {
            Step::Wait { until: earliest(due, stale_at) }
        }
    }

    /// Decides whether to upload a composed report, and records its start.
    pub fn begin(&mut self, draft: Draft, now: Instant) -> BeginResult {
        if self.flight.is_some() {
            return BeginResult::Busy;
        }
        let changes = self.pending.take();
        if let Some(shutdown) = &mut self.shutdown {
            shutdown.is_final_sent |= draft.reason == SendReason::Shutdown;
        }
        let is_for_changes =
            matches!(draft.reason, SendReason::Change | SendReason::FollowUp | SendReason::Shutdown);
        let is_unchanged = draft.contents == Contents::Running && self.stored_hash == Some(draft.hash);
        if is_for_changes && is_unchanged {
            if let Some(accepted) = &mut self.accepted {
                (accepted.revision, accepted.contents) = (draft.revision, draft.contents);
            }
            return BeginResult::Unchanged;
        }
        self.uploads += 1;
        if let Some(shutdown) = &mut self.shutdown {
            shutdown.attempts = shutdown.attempts.saturating_add(1);
        }
        self.last_start = Some(Start { at: now, interval: self.timing.heartbeat(self.upload_seed()) });
        self.flight = Some(Flight { draft, start: now, changes });
        BeginResult::Upload
    }

    /// Records the result of the upload in flight; without one, has no effect.
    pub fn finish(&mut self, result: UploadResult, now: Instant) -> Completion {
        let Some(flight) = self.flight.take() else { return Completion::default() };
        match result {
            UploadResult::Accepted { new_snapshot } => self.accept(&flight, new_snapshot, now),
            UploadResult::Failed { failure, retry_after } => {
                self.fail(&flight, failure, retry_after, now);
                Completion::default()
            }
        }
    }

    /// Begins the shutdown: from here on `next` requests at most one final report and its follow-up, and
    /// retries of them until the deadline. A second call has no effect.
    pub fn shut_down(&mut self, now: Instant) {
        self.shutdown.get_or_insert(Shutdown {
            deadline: now.checked_add(self.timing.shutdown_timeout),
            attempts: u32::from(self.flight.is_some()),
            is_final_sent: false,
            next_attempt: Some(now),
            is_over: false,
        });
    }

    /// Uploads since the shutdown began, including the one that was in flight then.
    #[must_use]
    pub fn attempts_at_shutdown(&self) -> u32 {
        self.shutdown.map_or(0, |shutdown| shutdown.attempts)
    }

    /// Time of the first change that no accepted report contains.
    #[must_use]
    pub fn pending_since(&self) -> Option<Instant> {
        let in_flight = self.flight.and_then(|flight| flight.changes);
        in_flight.or(self.pending).map(|pending| pending.first)
    }

    /// The failures since the last accepted report.
    #[cfg(test)]
    fn failing(&self) -> Option<Failing> {
        self.failing
    }

    /// Records the time of changes that no report contains.
    fn track_changes(&mut self, view: &View, now: Instant) {
        if view.knowledge == Knowledge::Unlisted {
            return;
        }
        let reported = match (&self.flight, &self.accepted) {
            (Some(flight), _) => Some(flight.draft.revision),
            (None, accepted) => accepted.map(|accepted| accepted.revision),
        };
        let is_new = self.last_revision.replace(view.revision) != Some(view.revision);
        let is_unreported =
            reported != Some(view.revision) || (view.has_departed_pods && self.flight.is_none());
        if !is_unreported {
            self.pending = None;
        } else if is_new || self.pending.is_none() {
            let first = self.pending.map_or(now, |pending| pending.first);
            self.pending = Some(Pending { first, last: now });
        }
    }

    /// Returns when the view becomes stale, or why it cannot be reported.
    fn check_freshness(&self, view: &View, now: Instant) -> Result<Option<Instant>, WithholdReason> {
        match view.knowledge {
            Knowledge::Unlisted => Err(WithholdReason::Unlisted),
            Knowledge::Unconfirmed => Err(WithholdReason::Unconfirmed),
            Knowledge::Contact(contact) => match self.timing.stale_at(contact) {
                stale_at if is_reached(stale_at, now) => Err(WithholdReason::Stale { contact }),
                stale_at => Ok(stale_at),
            },
        }
    }

    /// The next report and its due time, while none is in flight.
    fn due(&self, now: Instant) -> (SendReason, Option<Instant>) {
        let Some(last) = self.last_start else { return (SendReason::First, Some(now)) };
        let spaced = last.at.checked_add(self.timing.spacing(self.upload_time));
        if let Some(failing) = self.failing {
            return (failing.reason, latest(failing.retry_at, spaced));
        }
        if self.needs_follow_up() {
            // Not spaced: departed pods would appear to be running meanwhile. Its upload time counts towards
            // the spacing of the next report instead.
            return (SendReason::FollowUp, Some(now));
        }
        let heartbeat = last.at.checked_add(last.interval);
        let change =
            self.pending.and_then(|pending| self.timing.debounce_deadline(pending.first, pending.last));
        let (reason, due) = match change {
            Some(change) if !is_reached(heartbeat, change) => (SendReason::Change, Some(change)),
            _ => (SendReason::Heartbeat, heartbeat),
        };
        (reason, latest(due, spaced))
    }

    /// The next step of a shutdown. Spacing and the backoff from before the shutdown do not apply.
    fn next_at_shutdown(&mut self, view: &View, now: Instant) -> Step {
        let step = self.shutdown_step(view, now);
        if let (Some(shutdown), Step::Stop) = (&mut self.shutdown, step) {
            shutdown.is_over = true;
        }
        step
    }

    /// The step that [`Cadence::next`] takes once the shutdown has begun. Changes nothing.
    #[must_use]
    pub fn shutdown_step(&self, view: &View, now: Instant) -> Step {
        let Some(shutdown) = self.shutdown else { return Step::Stop };
        if shutdown.is_over || is_reached(shutdown.deadline, now) {
            return Step::Stop;
        }
        if self.flight.is_some() {
            return Step::Wait { until: shutdown.deadline };
        }
        let differs = self.accepted.is_none_or(|accepted| accepted.revision != view.revision);
        let is_unreported = differs || view.has_departed_pods || self.needs_follow_up();
        if !is_unreported || self.check_freshness(view, now).is_err() {
            return Step::Stop;
        }
        if shutdown.is_final_sent {
            let is_follow_up_due = self.needs_follow_up() && self.failing.is_none();
            return if is_follow_up_due { Step::Send { reason: SendReason::FollowUp } } else { Step::Stop };
        }
        match shutdown.next_attempt {
            at if is_reached(at, now) => Step::Send { reason: SendReason::Shutdown },
            at if earliest(at, shutdown.deadline) == shutdown.deadline => Step::Stop,
            at => Step::Wait { until: at },
        }
    }

    fn accept(&mut self, flight: &Flight, new_snapshot: Option<bool>, now: Instant) -> Completion {
        let Draft { reason, revision, hash, contents } = flight.draft;
        let another_writer = new_snapshot == Some(true) && self.stored_hash == Some(hash);
        let elapsed = now.saturating_duration_since(flight.start);
        let is_follow_up = reason == SendReason::FollowUp;
        self.upload_time = if is_follow_up { self.upload_time.saturating_add(elapsed) } else { elapsed };
        self.accepted = Some(Accepted { revision, contents });
        self.stored_hash = Some(hash);
        self.failing = None;
        Completion { accepted: Some((revision, contents)), another_writer }
    }

    fn fail(&mut self, flight: &Flight, failure: UploadFailure, retry_after: Option<Duration>, now: Instant) {
        if self.stored_hash != Some(flight.draft.hash) {
            self.stored_hash = None;
        }
        if let Some(changes) = flight.changes {
            let last = self.pending.map_or(changes.last, |pending| pending.last);
            self.pending = Some(Pending { first: changes.first, last });
        }
        let failures = self.failing.map_or(0, |failing| failing.failures).saturating_add(1);
        let seed = self.upload_seed();
        if let Some(shutdown) = &mut self.shutdown
            && shutdown.is_final_sent
            && failure == UploadFailure::Transient
        {
            let delay = self.timing.retry_delay_at_shutdown(shutdown.attempts, seed);
            shutdown.next_attempt = now.checked_add(self.timing.backoff.with_retry_after(delay, retry_after));
            shutdown.is_final_sent = false;
        }
        let delay = match failure {
            UploadFailure::Transient => self.timing.retry_delay(failures, seed),
            // A short interval must not cause frequent retries.
            UploadFailure::Permanent | UploadFailure::TooLarge => {
                self.timing.heartbeat(seed).max(self.timing.backoff.max)
            }
        };
        let delay = self.timing.backoff.with_retry_after(delay, retry_after);
        let since = self.failing.map_or(now, |failing| failing.since);
        let is_too_large =
            failure == UploadFailure::TooLarge && flight.draft.contents == Contents::RunningAndDeparted;
        let reason = if is_too_large { SendReason::Smaller } else { SendReason::Retry };
        self.failing = Some(Failing { since, failures, reason, retry_at: now.checked_add(delay) });
    }

    /// Whether the last accepted report contained departed pods.
    #[must_use]
    pub fn needs_follow_up(&self) -> bool {
        self.accepted.is_some_and(|accepted| accepted.contents == Contents::RunningAndDeparted)
    }

    /// A different seed for each upload.
    fn upload_seed(&self) -> u64 {
        self.seed.wrapping_add(self.uploads)
    }
}

#[cfg(test)]
mod state_model;
#[cfg(test)]
mod tests;
