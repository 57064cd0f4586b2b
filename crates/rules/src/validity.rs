//! Checks whether the stored compliance of an environment is still valid.
//!
//! Called by the API and the pages that show the current status of an environment. Pure: time is an argument.

use std::time::Duration;

use model::Timestamp;

/// The conditions that time can end.
#[derive(Debug, Clone, Copy)]
pub struct Validity {
    /// Time of the last report; `None` for never.
    pub last_report_at: Option<Timestamp>,
    /// Maximum time between two reports.
    pub silent_after: Duration,
    /// Expiry of the first allow-list entry that the compliance depends on.
    pub compliant_until: Option<Timestamp>,
}

impl Validity {
    /// `silent_after` is the environment's own setting, `default` the one of the service.
    #[must_use]
    pub fn new(
        last_report_at: Option<Timestamp>,
        silent_after: Option<Duration>,
        default: Duration,
        compliant_until: Option<Timestamp>,
    ) -> Self {
        Self { last_report_at, silent_after: silent_after.unwrap_or(default), compliant_until }
    }

    /// Whether the environment is silent: the last report is too old.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        // The absolute difference, so that a report from the future does not stay fresh.
        self.last_report_at.is_none_or(|last| now.distance(last) > self.silent_after)
    }

    /// Whether the environment is reported and its compliance not expired.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.is_silent(now) && self.compliant_until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compliance_is_valid_until_the_environment_is_silent_or_an_entry_expires() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (last, until, now, is_silent, is_valid) in [
            (None, None, 100, true, false),
            (Some(100), None, 100, false, true),
            (Some(100), None, 110, false, true),
            (Some(100), None, 111, true, false),
            // Reported in the future.
            (Some(100), None, 90, false, true),
            (Some(100), None, 89, true, false),
            (Some(100), Some(105), 104, false, true),
            (Some(100), Some(105), 105, false, false),
            (Some(100), Some(200), 111, true, false),
        ] {
            let validity = Validity {
                last_report_at: last.map(at),
                silent_after: Duration::from_secs(10),
                compliant_until: until.map(at),
            };
            let actual = (validity.is_silent(at(now)), validity.is_valid(at(now)));
            assert_eq!(actual, (is_silent, is_valid), "{last:?}, {until:?}, {now}");
        }
    }
}
