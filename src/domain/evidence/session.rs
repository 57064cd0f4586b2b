//! How long a browser stays signed in.
//!
//! The service asks for each page, and before it notes that a session was used. Pure; time is an argument.

use std::time::Duration;

use crate::domain::model::Timestamp;

/// How long a session lasts.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// How long nobody may use it.
    pub idle: Duration,
    /// How long it lasts at most, however much it is used.
    pub most: Duration,
    /// How old the note may be of when it was last used: not every page has to write.
    pub noted_within: Duration,
    /// How many there are of one token at a time.
    pub of_one: u32,
}

impl Default for Policy {
    /// 30 min; 12 h; 1 min; 100.
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(30),
            most: Duration::from_hours(12),
            noted_within: Duration::from_mins(1),
            of_one: 100,
        }
    }
}

/// When a session began, and when it was last used, as far as that was noted.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// When it began.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Timestamp,
}

impl Used {
    /// Whether it is over. A clock that was set back ends none.
    #[must_use]
    pub fn is_over(&self, now: Timestamp, policy: &Policy) -> bool {
        now.since(self.last_used_at) > policy.idle || now.since(self.created_at) > policy.most
    }

    /// Whether that it is used now has to be noted.
    #[must_use]
    pub fn has_to_be_noted(&self, now: Timestamp, policy: &Policy) -> bool {
        now.since(self.last_used_at) >= policy.noted_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_micros(minutes * 60_000_000)
    }

    #[test]
    fn a_session_ends_when_nobody_used_it_for_long_and_after_half_a_day() {
        let policy = Policy::default();
        for (created, used, now, is_over) in [
            (0, 0, 0, false),
            (0, 0, 30, false),
            (0, 0, 31, true),
            (0, 40, 60, false),
            (0, 40, 71, true),
            (0, 715, 720, false),
            (0, 715, 721, true),
            // The clock was set back.
            (10, 10, 0, false),
        ] {
            let used = Used { created_at: at(created), last_used_at: at(used) };
            assert_eq!(used.is_over(at(now), &policy), is_over, "{used:?} {now}");
        }
    }

    #[test]
    fn that_it_is_used_is_noted_once_a_minute() {
        let used = Used { created_at: at(0), last_used_at: at(5) };
        for (now, is_noted) in [(4, false), (5, false), (6, true), (20, true)] {
            assert_eq!(used.has_to_be_noted(at(now), &Policy::default()), is_noted, "{now}");
        }
    }
}
