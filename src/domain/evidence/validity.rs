//! Whether what was decided of an environment still holds.
//!
//! Asked by whatever shows an environment as it stands now, the API and pages. Pure; time is an argument.

use std::time::Duration;

use crate::domain::model::Timestamp;

/// What the word for an environment, and for what runs there, rests on, as far as time takes it away.
#[derive(Debug, Clone, Copy)]
pub struct Validity {
    /// When it was last reported; `None`: never.
    pub last_report_at: Option<Timestamp>,
    /// How long it may be silent.
    pub silent_after: Duration,
    /// When an entry of its allow-list ends that was relied on.
    pub compliant_until: Option<Timestamp>,
}

impl Validity {
    /// That of an environment which says itself how long it may be silent, or else may be so for as long as `otherwise`.
    #[must_use]
    pub fn of(
        last_report_at: Option<Timestamp>,
        silent_after: Option<Duration>,
        otherwise: Duration,
        compliant_until: Option<Timestamp>,
    ) -> Self {
        Self { last_report_at, silent_after: silent_after.unwrap_or(otherwise), compliant_until }
    }

    /// Whether nobody says what runs there.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        // A report from the future vouches for nothing either.
        self.last_report_at.is_none_or(|last| now.distance(last) > self.silent_after)
    }

    /// Whether somebody does, and everything that was relied on is still there.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        !self.is_silent(now) && self.compliant_until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_holds_until_a_silence_or_the_end_of_what_it_relied_on() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (last, until, now, is_silent, holds) in [
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
            let told = (validity.is_silent(at(now)), validity.holds(at(now)));
            assert_eq!(told, (is_silent, holds), "{last:?}, {until:?}, {now}");
        }
    }
}
