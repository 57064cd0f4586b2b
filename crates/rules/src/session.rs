//! Determines how long a browser stays signed in.
//!
//! Called by the service for each page, and before it records the use of a session. Pure: time is an argument.

use std::time::Duration;

use model::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct SessionTimeouts {
    /// Maximum time without use.
    pub idle: Duration,
    pub max_age: Duration,
    /// Minimum time between two recordings of use, so that not every page writes to the database.
    pub touch_interval: Duration,
    /// Maximum number of sessions of one token.
    pub max_per_token: u32,
}

impl Default for SessionTimeouts {
    /// 30 min; 12 h; 1 min; 100.
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(30),
            max_age: Duration::from_hours(12),
            touch_interval: Duration::from_mins(1),
            max_per_token: 100,
        }
    }
}

/// Start and last recorded use of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionTimes {
    pub created_at: Timestamp,
    /// Last recorded use.
    pub last_used_at: Timestamp,
}

impl SessionTimes {
    /// Whether the session is expired. A clock that is set back expires no session.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp, timeouts: &SessionTimeouts) -> bool {
        now.since(self.last_used_at) > timeouts.idle || now.since(self.created_at) > timeouts.max_age
    }

    /// Whether the use of the session must be recorded.
    #[must_use]
    pub fn needs_touch(&self, now: Timestamp, timeouts: &SessionTimeouts) -> bool {
        now.since(self.last_used_at) >= timeouts.touch_interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_micros(minutes * 60_000_000)
    }

    #[test]
    fn session_expires_when_idle_and_after_half_a_day() {
        let timeouts = SessionTimeouts::default();
        for (created, used, now, is_expired) in [
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
            let times = SessionTimes { created_at: at(created), last_used_at: at(used) };
            assert_eq!(times.is_expired(at(now), &timeouts), is_expired, "{times:?} {now}");
        }
    }

    #[test]
    fn use_is_recorded_once_a_minute() {
        let times = SessionTimes { created_at: at(0), last_used_at: at(5) };
        for (now, needs_touch) in [(4, false), (5, false), (6, true), (20, true)] {
            assert_eq!(times.needs_touch(at(now), &SessionTimeouts::default()), needs_touch, "{now}");
        }
    }
}
