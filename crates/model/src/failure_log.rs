//! Decides which failures of a repeated operation are logged: the first one, each different message, a reminder
//! once an interval, and the recovery.
//!
//! Used by `agent`, `runtime` and `service` for watches, reports, files and connections. Pure: time is
//! an argument.

use std::time::{Duration, Instant};

/// Limit for logging one message as new within a reminder interval, so that an operation that alternates between
/// failure and success does not flood the log.
const MAX_NEW_REPORTS: usize = 3;

/// The state of an operation that succeeds or has been failing for a while.
#[derive(Debug)]
pub struct FailureLog {
    reminder_interval: Duration,
    failing: Option<Failing>,
    /// Messages that were logged as new within the reminder interval.
    recent: Vec<(String, Instant)>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    failures: u64,
    message: String,
    logged_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogAction {
    /// Log a new failure, or another message than before.
    New,
    /// Log that the failure continues: number of failures, and duration.
    Ongoing(u64, Duration),
    /// Do not log: the failure was logged recently.
    Suppress,
}

impl FailureLog {
    /// The state of an operation that has not failed yet.
    #[must_use]
    pub fn new(reminder_interval: Duration) -> Self {
        Self { reminder_interval, failing: None, recent: Vec::new() }
    }

    pub fn failed(&mut self, message: &str, now: Instant) -> LogAction {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < self.reminder_interval;
        self.recent.retain(|(_, at)| is_recent(*at));
        let failing = self.failing.get_or_insert_with(|| Failing {
            since: now,
            failures: 0,
            message: message.to_owned(),
            logged_at: None,
        });
        failing.failures += 1;
        if failing.message != message {
            message.clone_into(&mut failing.message);
            failing.logged_at = None;
        }
        match failing.logged_at {
            Some(at) if is_recent(at) => LogAction::Suppress,
            Some(_) => {
                failing.logged_at = Some(now);
                LogAction::Ongoing(failing.failures, now.saturating_duration_since(failing.since))
            }
            None if self.recent.iter().filter(|(recent, _)| recent == message).count() >= MAX_NEW_REPORTS => {
                LogAction::Suppress
            }
            None => {
                failing.logged_at = Some(now);
                self.recent.push((message.to_owned(), now));
                LogAction::New
            }
        }
    }

    /// Records a success. Returns the number of failures and their duration if the failure was logged.
    pub fn recovered(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let failing = self.failing.take()?;
        failing.logged_at?;
        Some((failing.failures, now.saturating_duration_since(failing.since)))
    }

    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.failing.as_ref().map(|failing| failing.message.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_logged_first_on_change_once_a_minute_and_on_recovery() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut log = FailureLog::new(Duration::from_mins(1));
        assert_eq!(log.recovered(at(0)), None);
        let table = [
            (0, "refused", LogAction::New),
            (10, "refused", LogAction::Suppress),
            (20, "timed out", LogAction::New),
            (79, "timed out", LogAction::Suppress),
            (80, "timed out", LogAction::Ongoing(5, Duration::from_secs(80))),
            (139, "timed out", LogAction::Suppress),
            (140, "timed out", LogAction::Ongoing(7, Duration::from_secs(140))),
            (141, "refused", LogAction::New),
        ];
        for (seconds, message, action) in table {
            assert_eq!(log.failed(message, at(seconds)), action, "{seconds}");
        }
        assert_eq!(log.message(), Some("refused"));
        assert_eq!(log.recovered(at(150)), Some((8, Duration::from_secs(150))));
        assert_eq!((log.recovered(at(151)), log.message()), (None, None));
        assert_eq!(log.failed("refused", at(152)), LogAction::New);
    }

    #[test]
    fn alternating_failure_and_success_is_logged_three_times_per_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut log = FailureLog::new(Duration::from_mins(1));
        let mut lines = 0;
        for second in 0..60 {
            lines += u32::from(log.failed("refused", at(second)) == LogAction::New);
            lines += u32::from(log.recovered(at(second)).is_some());
        }
        assert_eq!(lines, 6);
        // Another failure is new, and the same failure is new again after a minute.
        assert_eq!(log.failed("timed out", at(60)), LogAction::New);
        assert_eq!(log.failed("refused", at(61)), LogAction::New);
        // A failure that was suppressed at its start is logged as soon as the limit permits.
        let mut log = FailureLog::new(Duration::from_mins(1));
        for second in 0..3 {
            log.failed("refused", at(second));
            log.recovered(at(second));
        }
        assert_eq!(log.failed("refused", at(3)), LogAction::Suppress);
        assert_eq!(log.message(), Some("refused"));
        assert_eq!(log.failed("refused", at(60)), LogAction::New);
        assert_eq!(log.recovered(at(61)), Some((2, Duration::from_secs(58))));
    }
}
