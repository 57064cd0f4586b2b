//! Durations of the cadence, and its arithmetic with time.
//!
//! `agent` builds a [`CadenceTiming`] from the command line. An instant that overflows is `None` and is never
//! reached.

use std::time::{Duration, Instant};

use model::retry::Backoff;

#[derive(Debug, Clone, Copy)]
pub struct CadenceTiming {
    /// Delay of a report after the last change.
    pub debounce: Duration,
    /// Maximum delay after the first change; at least `debounce`.
    pub max_debounce: Duration,
    /// Time between the starts of two reports without a change.
    pub interval: Duration,
    /// Random deviation of the interval, in percent.
    pub jitter: u32,
    /// Minimum time between the starts of two reports, as a multiple of the upload time.
    pub spacing_factor: u32,
    pub max_spacing: Duration,
    /// Withhold reports after this time without contact.
    pub stale_after: Duration,
    /// Delays after transient failures.
    pub backoff: Backoff,
    /// Maximum time of a shutdown, including a report in flight and retries.
    pub shutdown_timeout: Duration,
}

impl Default for CadenceTiming {
    fn default() -> Self {
        Self::scaled(1)
    }
}

impl CadenceTiming {
    /// The default with every duration divided by `divisor`.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let seconds = |seconds| Duration::from_secs(seconds) / divisor;
        Self {
            debounce: seconds(2),
            max_debounce: seconds(10),
            interval: seconds(60),
            jitter: 10,
            spacing_factor: 20,
            max_spacing: seconds(60),
            stale_after: seconds(4 * 60),
            backoff: Backoff::scaled(divisor),
            shutdown_timeout: seconds(5),
        }
    }

    /// The interval with jitter.
    pub(super) fn heartbeat(&self, seed: u64) -> Duration {
        let span = self.interval.saturating_mul(self.jitter).saturating_mul(2) / 100;
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let shift = Duration::from_nanos(fastrand::Rng::with_seed(seed).u64(0..=nanos));
        self.interval.saturating_sub(span / 2).saturating_add(shift)
    }

    /// Delay after this number of consecutive failures, the last of which is transient.
    pub(super) fn retry_delay(&self, failures: u32, seed: u64) -> Duration {
        nth_delay(self.backoff, failures, seed)
    }

    /// Delay before the final report is retried: 100 to 500 ms if the shutdown may take 5 s, so that a dozen
    /// attempts fit.
    pub(super) fn retry_delay_at_shutdown(&self, attempts: u32, seed: u64) -> Duration {
        let backoff =
            Backoff { initial: self.shutdown_timeout / 50, max: self.shutdown_timeout / 10, ..self.backoff };
        nth_delay(backoff, attempts, seed)
    }

    /// Minimum time between the starts of two reports.
    pub(super) fn spacing(&self, upload: Duration) -> Duration {
        upload.saturating_mul(self.spacing_factor).min(self.max_spacing)
    }

    pub(super) fn debounce_deadline(&self, first: Instant, last: Instant) -> Option<Instant> {
        let max = self.max_debounce.max(self.debounce);
        earliest(last.checked_add(self.debounce), first.checked_add(max))
    }

    pub(super) fn stale_at(&self, contact: Instant) -> Option<Instant> {
        contact.checked_add(self.stale_after)
    }
}

fn nth_delay(backoff: Backoff, failures: u32, seed: u64) -> Duration {
    // 63 doublings of any realistic first delay exceed the maximum.
    let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX).min(63);
    backoff.delays(seed).nth(index).unwrap_or(backoff.max)
}

/// The earlier of two times; `None` is never reached.
pub(super) fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// The time at which both are reached.
pub(super) fn latest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.zip(other).map(|(one, other)| one.max(other))
}

pub(super) fn is_reached(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}
