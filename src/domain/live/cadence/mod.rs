//! When one environment reports: the decision what to do next, from what is known and what came of
//! the reports before.
//!
//! The task of an environment in `agent` owns a [`Cadence`], asks it for the next [`Step`] whenever
//! something happened or the time that it named has come, and carries that out. It never sees a pod, a
//! body, a socket or a clock, and nothing else decides that a report is sent.
//!
//! ```text
//! next(view) ── Wait ───────────────────────────────► ask again at `until`, or when something changes
//!            ── Withhold ───────────────────────────► say so, ask again when something changes
//!            ── Send ──► begin(draft) ── Repetition ► ask again
//!                                     ── Upload ────► PUT, then answered(answer), then ask again
//!            ── Stop ───────────────────────────────► leave
//! ```

mod timing;
mod types;

use std::time::{Duration, Instant};

use super::departed_pods::Carried;
use super::departure::Revision;

use timing::{earliest, has_come, latest};

use types::Failing;

pub use timing::Policy;
pub use types::{Answer, Answered, Begun, Draft, Failure, Knowledge, Step, View, Why, Withheld};

/// When one environment reports.
#[derive(Debug, Clone)]
pub struct Cadence {
    policy: Policy,
    seed: u64,
    /// How many uploads began.
    uploads: u64,
    /// The revision that was seen last.
    seen: Option<Revision>,
    /// What changed since the last report began.
    pending: Option<Pending>,
    flight: Option<Flight>,
    last: Option<Start>,
    accepted: Option<Accepted>,
    /// The hash of the bytes that the service holds. Unknown once other bytes were tried in vain: they
    /// may have arrived, and the answer been lost.
    held: Option<u64>,
    /// How long the last accepted report took to upload, with its follow-up.
    took: Duration,
    failing: Option<Failing>,
    ending: Option<Ending>,
    /// Whether the set could not be vouched for when it was last asked.
    was_stale: bool,
    /// Until when what was missed in such a time may still be coming in.
    settled_at: Option<Instant>,
}

/// Changes that no report holds.
#[derive(Debug, Clone, Copy)]
struct Pending {
    first: Instant,
    last: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    draft: Draft,
    start: Instant,
    /// The changes that it holds.
    told: Option<Pending>,
}

/// When the last upload began, however it ended.
#[derive(Debug, Clone, Copy)]
struct Start {
    at: Instant,
    /// From then to the next heartbeat.
    interval: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Accepted {
    revision: Revision,
    carried: Carried,
}

/// The state of a shutdown.
#[derive(Debug, Clone, Copy)]
struct Ending {
    deadline: Option<Instant>,
    /// Uploads since the shutdown began, including the one that was in flight then.
    attempts: u32,
    /// Whether the last report was sent, and has not failed in a way that allows a retry.
    is_sent: bool,
    /// When the last report may be sent, or sent again.
    next_attempt: Option<Instant>,
    is_over: bool,
}

impl Cadence {
    /// Of an environment that has not reported. Environments with different seeds do not keep in step.
    #[must_use]
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            seed,
            uploads: 0,
            seen: None,
            pending: None,
            flight: None,
            last: None,
            accepted: None,
            held: None,
            took: Duration::ZERO,
            failing: None,
            ending: None,
            was_stale: false,
            settled_at: None,
        }
    }

    /// What to do now. To be asked whenever the view changes, since changes count from when they are
    /// seen here.
    pub fn next(&mut self, view: &View, now: Instant) -> Step {
        self.notice(view, now);
        if self.ending.is_some() {
            return self.end(view, now);
        }
        let stale_at = match self.vouch(view, now) {
            Ok(stale_at) => stale_at,
            Err(why) => {
                self.was_stale |= matches!(why, Withheld::Stale { .. });
                return Step::Withhold { why };
            }
        };
        if std::mem::take(&mut self.was_stale) {
            // The first word after a long silence may be the first of many that were missed.
            self.settled_at = now.checked_add(self.policy.debounce);
        }
        if self.flight.is_some() {
            return Step::Wait { until: stale_at };
        }
        let (why, due) = self.due(now);
        let due = if self.settled_at.is_some() { latest(due, self.settled_at) } else { due };
        if has_come(due, now) { Step::Send { why } } else { Step::Wait { until: earliest(due, stale_at) } }
    }

    /// Whether to upload what was composed, and if so, that it begins now.
    pub fn begin(&mut self, draft: Draft, now: Instant) -> Begun {
        if self.flight.is_some() {
            return Begun::Busy;
        }
        let told = self.pending.take();
        if let Some(ending) = &mut self.ending {
            ending.is_sent |= draft.why == Why::LastWord;
        }
        let is_for_what_is_new = matches!(draft.why, Why::Change | Why::FollowUp | Why::LastWord);
        if is_for_what_is_new && draft.carried == Carried::Nothing && self.held == Some(draft.hash) {
            if let Some(accepted) = &mut self.accepted {
                (accepted.revision, accepted.carried) = (draft.revision, draft.carried);
            }
            return Begun::Repetition;
        }
        self.uploads += 1;
        if let Some(ending) = &mut self.ending {
            ending.attempts = ending.attempts.saturating_add(1);
        }
        self.last = Some(Start { at: now, interval: self.policy.heartbeat(self.draw()) });
        self.flight = Some(Flight { draft, start: now, told });
        Begun::Upload
    }

    /// Takes in what came of the upload in flight; without one, nothing.
    pub fn answered(&mut self, answer: Answer, now: Instant) -> Answered {
        let Some(flight) = self.flight.take() else { return Answered::default() };
        match answer {
            Answer::Accepted { new_snapshot } => self.accept(&flight, new_snapshot, now),
            Answer::Failed { failure, retry_after } => {
                self.fail(&flight, failure, retry_after, now);
                Answered::default()
            }
        }
    }

    /// Begins the shutdown: from here on `next` asks for at most one report and its follow-up, and for
    /// retries of them until the deadline. A second call has no effect.
    pub fn shut_down(&mut self, now: Instant) {
        self.ending.get_or_insert(Ending {
            deadline: now.checked_add(self.policy.last_word),
            attempts: u32::from(self.flight.is_some()),
            is_sent: false,
            next_attempt: Some(now),
            is_over: false,
        });
    }

    /// Uploads since the shutdown began, including the one that was in flight then.
    #[must_use]
    pub fn attempts_at_shutdown(&self) -> u32 {
        self.ending.map_or(0, |ending| ending.attempts)
    }

    /// When the first of the changes was seen that no accepted report holds.
    #[must_use]
    pub fn pending_since(&self) -> Option<Instant> {
        let told = self.flight.and_then(|flight| flight.told);
        told.or(self.pending).map(|pending| pending.first)
    }

    /// The failures since a report was last accepted.
    #[cfg(test)]
    fn failing(&self) -> Option<Failing> {
        self.failing
    }

    /// Keeps track of when something changed that no report says.
    fn notice(&mut self, view: &View, now: Instant) {
        if view.knowledge == Knowledge::Unlisted {
            return;
        }
        let said = match (&self.flight, &self.accepted) {
            (Some(flight), _) => Some(flight.draft.revision),
            (None, accepted) => accepted.map(|accepted| accepted.revision),
        };
        let is_new = self.seen.replace(view.revision) != Some(view.revision);
        let is_unsaid = said != Some(view.revision) || (view.witnessed && self.flight.is_none());
        if !is_unsaid {
            self.pending = None;
        } else if is_new || self.pending.is_none() {
            let first = self.pending.map_or(now, |pending| pending.first);
            self.pending = Some(Pending { first, last: now });
        }
    }

    /// Until when the set can be vouched for, or why it cannot.
    fn vouch(&self, view: &View, now: Instant) -> Result<Option<Instant>, Withheld> {
        match view.knowledge {
            Knowledge::Unlisted => Err(Withheld::Unlisted),
            Knowledge::Unconfirmed => Err(Withheld::Unconfirmed),
            Knowledge::Contact(contact) => match self.policy.stale_at(contact) {
                stale_at if has_come(stale_at, now) => Err(Withheld::Stale { contact }),
                stale_at => Ok(stale_at),
            },
        }
    }

    /// Which report is due next while none is in flight, and when.
    fn due(&self, now: Instant) -> (Why, Option<Instant>) {
        let Some(last) = self.last else { return (Why::First, Some(now)) };
        let spaced = last.at.checked_add(self.policy.spacing(self.took));
        if let Some(failing) = self.failing {
            return (failing.why, latest(failing.again_at, spaced));
        }
        if self.owes_follow_up() {
            // Spacing does not hold it back: pods that are gone would look alive meanwhile. The time
            // that it takes counts with its forerunner's instead, so that what is uploaded in the long
            // run stays the same part of the time.
            return (Why::FollowUp, Some(now));
        }
        let heartbeat = last.at.checked_add(last.interval);
        let change = self.pending.and_then(|pending| self.policy.ripe(pending.first, pending.last));
        let (why, due) = match change {
            Some(change) if !has_come(heartbeat, change) => (Why::Change, Some(change)),
            _ => (Why::Heartbeat, heartbeat),
        };
        (why, latest(due, spaced))
    }

    /// The next step of a shutdown. Spacing and the backoff from before the shutdown do not apply.
    fn end(&mut self, view: &View, now: Instant) -> Step {
        let step = self.shutdown_step(view, now);
        if let (Some(ending), Step::Stop) = (&mut self.ending, step) {
            ending.is_over = true;
        }
        step
    }

    /// The step that [`Cadence::next`] takes once the shutdown has begun. Changes nothing.
    #[must_use]
    pub fn shutdown_step(&self, view: &View, now: Instant) -> Step {
        let Some(ending) = self.ending else { return Step::Stop };
        if ending.is_over || has_come(ending.deadline, now) {
            return Step::Stop;
        }
        if self.flight.is_some() {
            return Step::Wait { until: ending.deadline };
        }
        let differs = self.accepted.is_none_or(|accepted| accepted.revision != view.revision);
        let is_unreported = differs || view.witnessed || self.owes_follow_up();
        if !is_unreported || self.vouch(view, now).is_err() {
            return Step::Stop;
        }
        if ending.is_sent {
            let is_follow_up_due = self.owes_follow_up() && self.failing.is_none();
            return if is_follow_up_due { Step::Send { why: Why::FollowUp } } else { Step::Stop };
        }
        match ending.next_attempt {
            at if has_come(at, now) => Step::Send { why: Why::LastWord },
            at if earliest(at, ending.deadline) == ending.deadline => Step::Stop,
            at => Step::Wait { until: at },
        }
    }

    fn accept(&mut self, flight: &Flight, new_snapshot: Option<bool>, now: Instant) -> Answered {
        let Draft { why, revision, hash, carried } = flight.draft;
        let another_writer = new_snapshot == Some(true) && self.held == Some(hash);
        let took = now.saturating_duration_since(flight.start);
        self.took = if why == Why::FollowUp { self.took.saturating_add(took) } else { took };
        self.accepted = Some(Accepted { revision, carried });
        self.held = Some(hash);
        self.failing = None;
        Answered { accepted: Some((revision, carried)), another_writer }
    }

    fn fail(&mut self, flight: &Flight, failure: Failure, retry_after: Option<Duration>, now: Instant) {
        if self.held != Some(flight.draft.hash) {
            self.held = None;
        }
        if let Some(told) = flight.told {
            let last = self.pending.map_or(told.last, |pending| pending.last);
            self.pending = Some(Pending { first: told.first, last });
        }
        let before = self.failing.map_or(0, |failing| failing.failures);
        let failures = before.saturating_add(1);
        let draw = self.draw();
        if let Some(ending) = &mut self.ending
            && ending.is_sent
            && failure == Failure::Passing
        {
            let pause = self.policy.pause_at_shutdown(ending.attempts, draw);
            ending.next_attempt = now.checked_add(self.policy.backoff.at_least(pause, retry_after));
            ending.is_sent = false;
        }
        let pause = match failure {
            Failure::Passing => self.policy.pause(failures, draw),
            // However short the interval: it will not mend itself.
            Failure::Lasting | Failure::TooLarge => self.policy.heartbeat(draw).max(self.policy.backoff.most),
        };
        let pause = self.policy.backoff.at_least(pause, retry_after);
        let since = self.failing.map_or(now, |failing| failing.since);
        let was_too_large = failure == Failure::TooLarge && flight.draft.carried == Carried::Witnessed;
        let why = if was_too_large { Why::Smaller } else { Why::Retry };
        self.failing = Some(Failing { since, failures, why, again_at: now.checked_add(pause) });
    }

    /// Whether the service holds pods that ran no longer when it was told of them.
    #[must_use]
    pub fn owes_follow_up(&self) -> bool {
        self.accepted.is_some_and(|accepted| accepted.carried == Carried::Witnessed)
    }

    /// Another for each upload.
    fn draw(&self) -> u64 {
        self.seed.wrapping_add(self.uploads)
    }
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
