//! Rate limit for failed authentication, by address.
//!
//! Kept by `service` for addresses and hashes of tokens and of browser sessions. A token or session that was accepted
//! before is exempt, so that a guessing client does not lock out others behind the same proxy or NAT. The cookie of a
//! session that has ended is no guess, so it is not counted. Does not check tokens itself. Pure: time is an argument.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Limit for stored addresses, tokens and sessions each, which evicts the oldest.
const MAX_ENTRIES: usize = 10_000;

/// Recent failures by address, and accepted tokens and sessions.
#[derive(Debug)]
pub struct RateLimiter<Address, Token> {
    max_failures: u32,
    window: Duration,
    failures: RecentMap<Address, Failures>,
    accepted: RecentMap<Token, ()>,
    /// Separate from `accepted`: repeated sign-ins with one token must not evict other tokens.
    sessions: RecentMap<Token, SessionState>,
}

/// State of a session that was valid at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Valid,
    /// Final: no session starts again.
    Ended,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    /// The first failure, which starts the window.
    since: Instant,
    count: u32,
}

/// A map of the most recently inserted keys.
#[derive(Debug)]
struct RecentMap<Key, Value> {
    values: HashMap<Key, (u64, Value)>,
    /// The keys in the order of insertion.
    order: BTreeMap<u64, Key>,
    next: u64,
}

impl<Address: Copy + Eq + Hash, Token: Copy + Eq + Hash> RateLimiter<Address, Token> {
    /// Allows `max_failures` of an address within `window`.
    #[must_use]
    pub fn new(max_failures: u32, window: Duration) -> Self {
        let (failures, accepted, sessions) = (RecentMap::new(), RecentMap::new(), RecentMap::new());
        Self { max_failures, window, failures, accepted, sessions }
    }

    /// The time until requests of this address with this token or session, or without one, are accepted again.
    #[must_use]
    pub fn retry_after(&self, address: Address, token: Option<Token>, now: Instant) -> Option<Duration> {
        let is_accepted = |token| {
            self.accepted.get(token).is_some() || self.sessions.get(token) == Some(&SessionState::Valid)
        };
        if token.is_some_and(is_accepted) {
            return None;
        }
        let failures = self.failures.get(address).filter(|failures| failures.count >= self.max_failures)?;
        let left = self.window.saturating_sub(now.saturating_duration_since(failures.since));
        (!left.is_zero()).then_some(left)
    }

    /// Records a failed authentication. Returns whether the address reached the limit with it. The token, if it was
    /// accepted before, is no longer exempt.
    pub fn record_failure(&mut self, address: Address, token: Option<Token>, now: Instant) -> bool {
        if let Some(token) = token {
            self.accepted.remove(token);
        }
        let is_recent = |failures: &&Failures| now.saturating_duration_since(failures.since) < self.window;
        let recent = self.failures.get(address).filter(is_recent).copied();
        let mut failures = recent.unwrap_or(Failures { since: now, count: 0 });
        failures.count = failures.count.saturating_add(1);
        self.failures.insert(address, failures);
        failures.count == self.max_failures
    }

    pub fn record_success(&mut self, token: Token) {
        self.accepted.insert(token, ());
    }

    pub fn record_session(&mut self, session: Token) {
        self.sessions.insert(session, SessionState::Valid);
    }

    pub fn record_session_end(&mut self, session: Token) {
        self.sessions.insert(session, SessionState::Ended);
    }

    /// Records a session that is not stored. It has ended if it was accepted before. Otherwise it counts as a failed
    /// authentication. Returns whether the address reached the limit with it.
    pub fn record_unknown_session(&mut self, address: Address, session: Token, now: Instant) -> bool {
        if self.sessions.get(session).is_some() {
            self.record_session_end(session);
            return false;
        }
        self.record_failure(address, None, now)
    }

    /// Whether this session is known to have ended.
    #[must_use]
    pub fn has_ended(&self, session: Token) -> bool {
        self.sessions.get(session) == Some(&SessionState::Ended)
    }
}

impl<Key: Copy + Eq + Hash, Value> RecentMap<Key, Value> {
    fn new() -> Self {
        Self { values: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }

    fn get(&self, key: Key) -> Option<&Value> {
        self.values.get(&key).map(|(_, value)| value)
    }

    fn insert(&mut self, key: Key, value: Value) {
        self.remove(key);
        self.values.insert(key, (self.next, value));
        self.order.insert(self.next, key);
        self.next += 1;
        if self.values.len() > MAX_ENTRIES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some((at, _)) = self.values.remove(&key) {
            self.order.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// Second, address and token of a failure.
        Failure(u64, u8, u8),
        Success(u8),
        Session(u8),
        End(u8),
        /// Second, address and hash of a session that is not stored.
        Unknown(u64, u8, u8),
    }
    use Step::{End, Failure, Session, Success, Unknown};

    /// Second, address and token.
    type Attempt = (u64, u8, Option<u8>);

    #[test]
    fn address_with_too_many_failures_is_limited_until_the_window_ends() {
        // Three failures within a minute.
        let thrice = [Failure(0, 1, 0), Failure(1, 1, 0), Failure(2, 1, 0)];
        let table: [(&[Step], Attempt, Option<u64>); _] = [
            (&[], (0, 1, None), None),
            (&thrice[..2], (2, 1, Some(0)), None),
            (&thrice, (2, 1, Some(0)), Some(58)),
            // Limited with another token or none; other addresses are not.
            (&thrice, (2, 1, Some(9)), Some(58)),
            (&thrice, (2, 1, None), Some(58)),
            (&thrice, (2, 2, Some(0)), None),
            (&thrice, (59, 1, Some(0)), Some(1)),
            (&thrice, (60, 1, Some(0)), None),
            // All failures expire a minute after the first.
            (&[Failure(0, 1, 0), Failure(1, 1, 0), Failure(60, 1, 0)], (60, 1, Some(0)), None),
            (
                &[Failure(0, 1, 0), Failure(60, 1, 0), Failure(61, 1, 0), Failure(62, 1, 0)],
                (62, 1, Some(0)),
                Some(58),
            ),
            // An accepted token is exempt until it fails itself.
            (&[&[Success(7)][..], &thrice].concat(), (2, 1, Some(7)), None),
            (&[&thrice[..], &[Success(7)]].concat(), (2, 1, Some(7)), None),
            (&[&[Success(7)][..], &thrice, &[Failure(3, 2, 7)]].concat(), (3, 1, Some(7)), Some(57)),
            (&[&thrice[..], &[Session(7)]].concat(), (2, 1, Some(7)), None),
            // So is an accepted session until it ends.
            (&[&[Session(7)][..], &thrice, &[Unknown(3, 2, 7)]].concat(), (3, 1, Some(7)), Some(57)),
            (&[&[Session(7)][..], &thrice, &[End(7)]].concat(), (3, 1, Some(7)), Some(57)),
            // Unknown sessions count, unless they have ended.
            (&[&thrice[..2], &[Unknown(2, 1, 7)]].concat(), (2, 1, None), Some(58)),
            (&[&thrice[..2], &[Session(7), Unknown(2, 1, 7), Unknown(2, 1, 7)]].concat(), (2, 1, None), None),
            (&[&thrice[..2], &[End(7), Unknown(2, 1, 7)]].concat(), (2, 1, None), None),
        ];
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        for (steps, (second, address, token), expected) in table {
            let mut limiter = RateLimiter::new(3, Duration::from_mins(1));
            for step in steps {
                match *step {
                    Failure(second, address, token) => {
                        limiter.record_failure(address, Some(token), at(second));
                    }
                    Success(token) => limiter.record_success(token),
                    Session(session) => limiter.record_session(session),
                    End(session) => limiter.record_session_end(session),
                    Unknown(second, address, session) => {
                        limiter.record_unknown_session(address, session, at(second));
                    }
                }
            }
            let delay = limiter.retry_after(address, token, at(second));
            assert_eq!(delay, expected.map(Duration::from_secs), "{steps:?} {second} {address} {token:?}");
        }
    }

    #[test]
    fn session_has_ended_only_if_it_was_accepted() {
        let now = Instant::now();
        let mut limiter: RateLimiter<u8, u8> = RateLimiter::new(1, Duration::from_mins(1));
        limiter.record_session(1);
        assert!(!limiter.has_ended(1));
        assert!(!limiter.record_unknown_session(0, 1, now), "not counted");
        assert!(limiter.record_unknown_session(0, 2, now), "counted");
        assert_eq!([1, 2].map(|session| limiter.has_ended(session)), [true, false]);
    }

    #[test]
    fn reached_limit_is_returned_once_per_window() {
        let start = Instant::now();
        let mut limiter: RateLimiter<u8, u8> = RateLimiter::new(2, Duration::from_mins(1));
        let reached = [0, 1, 2, 3, 60, 61, 62].map(|second| {
            let at = start + Duration::from_secs(second);
            limiter.record_failure(1, None, at)
        });
        assert_eq!(reached, [false, true, false, false, false, true, false]);
    }

    #[test]
    fn oldest_entries_are_evicted() {
        let now = Instant::now();
        let mut limiter: RateLimiter<u32, u32> = RateLimiter::new(1, Duration::from_mins(1));
        limiter.record_success(0);
        for address in 0..=10_000 {
            limiter.record_failure(address, Some(1_000_000 + address), now);
            limiter.record_success(address);
            // Sessions do not evict tokens.
            limiter.record_session(2_000_000 + address);
            // Inserted again and again.
            limiter.record_failure(5, None, now);
        }
        for (address, is_stored) in [(0, false), (1, true), (5, true), (10_000, true)] {
            assert_eq!(limiter.retry_after(address, None, now).is_some(), is_stored, "{address}");
        }
        for (token, is_stored) in [(0, false), (1, true), (10_000, true)] {
            assert_eq!(limiter.retry_after(5, Some(token), now).is_none(), is_stored, "{token}");
        }
        for (values, order) in [
            (limiter.failures.values.len(), limiter.failures.order.len()),
            (limiter.accepted.values.len(), limiter.accepted.order.len()),
        ] {
            assert_eq!((values, order), (MAX_ENTRIES, MAX_ENTRIES));
        }
    }
}
