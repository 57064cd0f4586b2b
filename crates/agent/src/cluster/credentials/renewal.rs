//! Decides when an issued credential is replaced, as client-go's exec plugins do: when it has expired, and after a 401.
//!
//! Called by `issued`. client-go runs a plugin after each 401. Here, a server that always answers 401 does not: a
//! credential that no request was accepted with is replaced after a pause that doubles.

use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::Timestamp;

/// Limit for the pause, in multiples of the first one.
const MAX_PAUSE: u32 = 64;

#[derive(Debug)]
pub(super) struct Renewal {
    first_pause: Duration,
    /// When the last credential was issued, or was to be.
    issued_at: Option<Instant>,
    expires: Option<Timestamp>,
    usage: Usage,
    /// Replacements in a row that failed, or that the server rejected.
    failures: u32,
}

/// What happened to requests with the current credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    Unused,
    Sent,
    Accepted,
    Rejected,
}

impl Renewal {
    pub(super) fn new(first_pause: Duration) -> Self {
        Self { first_pause, issued_at: None, expires: None, usage: Usage::Unused, failures: 0 }
    }

    /// Whether the next request needs another credential. A new one is sent once, even if its clock says that it has
    /// expired.
    pub(super) fn is_due(&self, now: Instant, time: Timestamp) -> bool {
        let Some(issued_at) = self.issued_at else { return true };
        match self.usage {
            Usage::Unused => false,
            Usage::Sent | Usage::Accepted => self.is_expired(time),
            Usage::Rejected => self.is_expired(time) || now >= issued_at + self.pause(),
        }
    }

    pub(super) fn is_expired(&self, time: Timestamp) -> bool {
        self.expires.is_some_and(|expires| time > expires)
    }

    pub(super) fn issued(&mut self, expires: Option<Timestamp>, now: Instant) {
        (self.issued_at, self.expires, self.usage) = (Some(now), expires, Usage::Unused);
    }

    /// The credential could not be replaced.
    pub(super) fn failed(&mut self, now: Instant) {
        self.issued_at = self.issued_at.map(|_| now);
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn sent(&mut self) {
        if self.usage == Usage::Unused {
            self.usage = Usage::Sent;
        }
    }

    /// The server answered a request with the current credential.
    pub(super) fn answered(&mut self, status: StatusCode) {
        if status != StatusCode::UNAUTHORIZED {
            (self.usage, self.failures) = (Usage::Accepted, 0);
        } else if self.usage != Usage::Rejected {
            if self.usage != Usage::Accepted {
                self.failures = self.failures.saturating_add(1);
            }
            self.usage = Usage::Rejected;
        }
    }

    fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => self.first_pause * 2_u32.saturating_pow(failures - 1).min(MAX_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Clock(Instant, Timestamp);

    impl Clock {
        fn start() -> Self {
            Self(Instant::now(), Timestamp::from_second(1_800_000_000).unwrap())
        }

        fn advance(&mut self, by: Duration) {
            (self.0, self.1) = (self.0 + by, self.1 + by);
        }

        fn is_due(&self, renewal: &Renewal) -> bool {
            renewal.is_due(self.0, self.1)
        }
    }

    /// Sends a request and receives this status.
    fn request(renewal: &mut Renewal, status: StatusCode) {
        renewal.sent();
        renewal.answered(status);
    }

    #[test]
    fn credential_is_replaced_when_it_has_expired_but_sent_once_before() {
        let (mut clock, mut renewal) = (Clock::start(), Renewal::new(SECOND));
        assert!(clock.is_due(&renewal));
        renewal.issued(Some(clock.1 + SECOND), clock.0);
        clock.advance(SECOND);
        request(&mut renewal, StatusCode::OK);
        assert!(!clock.is_due(&renewal));
        clock.advance(SECOND);
        assert!(clock.is_due(&renewal));
        renewal.issued(Some(clock.1 - SECOND), clock.0);
        assert!(!clock.is_due(&renewal));
        renewal.sent();
        assert!(clock.is_due(&renewal));
        renewal.issued(None, clock.0);
        request(&mut renewal, StatusCode::FORBIDDEN);
        clock.advance(Duration::from_hours(1000));
        assert!(!clock.is_due(&renewal));
    }

    #[test]
    fn accepted_credential_is_replaced_at_once_after_a_401() {
        let (clock, mut renewal) = (Clock::start(), Renewal::new(SECOND));
        renewal.issued(None, clock.0);
        request(&mut renewal, StatusCode::OK);
        request(&mut renewal, StatusCode::UNAUTHORIZED);
        assert!(clock.is_due(&renewal));
        renewal.issued(None, clock.0);
        assert!(!clock.is_due(&renewal));
    }

    #[test]
    fn credentials_that_are_never_accepted_are_replaced_after_growing_pauses() {
        let (mut clock, mut renewal) = (Clock::start(), Renewal::new(SECOND));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            renewal.issued(None, clock.0);
            let mut pause = 0;
            while {
                // Several requests with one credential count once.
                request(&mut renewal, StatusCode::UNAUTHORIZED);
                !clock.is_due(&renewal)
            } {
                clock.advance(SECOND);
                pause += 1;
            }
            pauses.push(pause);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        request(&mut renewal, StatusCode::OK);
        request(&mut renewal, StatusCode::UNAUTHORIZED);
        assert!(clock.is_due(&renewal), "a success ends the pauses");
        renewal.failed(clock.0);
        assert!(!clock.is_due(&renewal), "a failure begins one");
        clock.advance(SECOND);
        assert!(clock.is_due(&renewal));
    }
}
