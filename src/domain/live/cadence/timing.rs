//! How long each thing takes: the numbers that the cadence goes by, and its arithmetic with time.
//!
//! `agent` makes a [`Policy`] from the command line, tests scale it. A time that is too far away to be
//! written down never comes; nothing here overflows.

use std::time::{Duration, Instant};

use crate::domain::retry::Backoff;

/// The numbers that a cadence goes by.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// How long a change waits for company, counted from the last change.
    pub debounce: Duration,
    /// How long the first of several changes waits at most; never less than `debounce`.
    pub most_debounce: Duration,
    /// From the start of one report to the next where nothing changes.
    pub interval: Duration,
    /// By how much of itself an interval may be shorter or longer, in percent.
    pub jitter: u32,
    /// How many times as long as an upload takes it is from its start to the next one's.
    pub spacing_factor: u32,
    /// The most that comes of that.
    pub most_spacing: Duration,
    /// How long after the last contact the set may still be vouched for.
    pub stale: Duration,
    /// How long to wait after a failure that may pass.
    pub backoff: Backoff,
    /// How long a shutdown may take, including a report that is in flight and retries.
    pub last_word: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            debounce: Duration::from_secs(2),
            most_debounce: Duration::from_secs(10),
            interval: Duration::from_mins(1),
            jitter: 10,
            spacing_factor: 20,
            most_spacing: Duration::from_mins(1),
            stale: Duration::from_mins(4),
            backoff: Backoff::default(),
            last_word: Duration::from_secs(5),
        }
    }
}

impl Policy {
    /// The same with every duration so many times shorter.
    #[must_use]
    pub fn hastened(self, times: u32) -> Self {
        Self {
            debounce: self.debounce / times,
            most_debounce: self.most_debounce / times,
            interval: self.interval / times,
            most_spacing: self.most_spacing / times,
            stale: self.stale / times,
            backoff: self.backoff.hastened(times),
            last_word: self.last_word / times,
            ..self
        }
    }

    /// An interval with its jitter. The same draw gives the same interval.
    pub(crate) fn heartbeat(&self, draw: u64) -> Duration {
        let span = self.interval.saturating_mul(self.jitter).saturating_mul(2) / 100;
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let shift = Duration::from_nanos(fastrand::Rng::with_seed(draw).u64(0..=nanos));
        self.interval.saturating_sub(span / 2).saturating_add(shift)
    }

    /// How long to wait after so many failures in a row, the last of which may pass.
    pub(crate) fn pause(&self, failures: u32, draw: u64) -> Duration {
        nth_delay(self.backoff, failures, draw)
    }

    /// Delay before the last report is sent again, after so many attempts: 100 to 500 ms of a shutdown
    /// that may take 5 s, so that a dozen attempts fit.
    pub(crate) fn pause_at_shutdown(&self, attempts: u32, draw: u64) -> Duration {
        let backoff = Backoff { first: self.last_word / 50, most: self.last_word / 10, ..self.backoff };
        nth_delay(backoff, attempts, draw)
    }

    /// How far apart reports start that take so long.
    pub(crate) fn spacing(&self, upload: Duration) -> Duration {
        upload.saturating_mul(self.spacing_factor).min(self.most_spacing)
    }

    /// When changes have had their company.
    pub(crate) fn ripe(&self, first: Instant, last: Instant) -> Option<Instant> {
        let most = self.most_debounce.max(self.debounce);
        earliest(last.checked_add(self.debounce), first.checked_add(most))
    }

    /// When a set whose last contact was then can no longer be vouched for.
    pub(crate) fn stale_at(&self, contact: Instant) -> Option<Instant> {
        contact.checked_add(self.stale)
    }
}

fn nth_delay(backoff: Backoff, failures: u32, draw: u64) -> Duration {
    // From any first delay that makes sense, 63 doublings lead past `most`.
    let before = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX).min(63);
    backoff.delays(draw).nth(before).unwrap_or(backoff.most)
}

/// The first of two times that come; `None` never comes.
pub(crate) fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// When both times have come.
pub(crate) fn latest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.zip(other).map(|(one, other)| one.max(other))
}

/// Whether a time has come.
pub(crate) fn has_come(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}
