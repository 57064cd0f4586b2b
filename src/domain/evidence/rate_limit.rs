//! Who was refused too often of late, and has to wait before anybody looks at what they bring.
//!
//! Those who share an address with whoever guesses (behind one proxy, or one NAT) are not locked out with them: a
//! token that was let in once is not made to wait. Whether it is still valid is for others to say. `service` keeps
//! one, of addresses and the hashes of tokens.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How many addresses, and how many tokens, are remembered: those that were seen last.
const REMEMBERED: usize = 10_000;

/// What was refused of late, by address, and which tokens were let in.
#[derive(Debug)]
pub struct Throttle<Address, Token> {
    most: u32,
    within: Duration,
    refused: Latest<Address, Refused>,
    admitted: Latest<Token, ()>,
}

/// What was refused of one address.
#[derive(Debug, Clone, Copy)]
struct Refused {
    /// The first time: what is older than that is forgotten with it.
    since: Instant,
    times: u32,
}

/// The values of the keys that were put last.
#[derive(Debug)]
struct Latest<Key, Value> {
    values: HashMap<Key, (u64, Value)>,
    /// The keys, by when they were put.
    order: BTreeMap<u64, Key>,
    next: u64,
}

impl<Address: Copy + Eq + Hash, Token: Copy + Eq + Hash> Throttle<Address, Token> {
    /// One by which an address may be refused so often within so long.
    #[must_use]
    pub fn new(most: u32, within: Duration) -> Self {
        Self { most, within, refused: Latest::new(), admitted: Latest::new() }
    }

    /// For how long whoever comes from this address with this token, or none, is not looked at.
    #[must_use]
    pub fn wait(&self, address: Address, token: Option<Token>, now: Instant) -> Option<Duration> {
        if token.is_some_and(|token| self.admitted.get(token).is_some()) {
            return None;
        }
        let refused = self.refused.get(address).filter(|refused| refused.times >= self.most)?;
        let left = self.within.saturating_sub(now.saturating_duration_since(refused.since));
        (!left.is_zero()).then_some(left)
    }

    /// Nothing valid came from this address; true where it has to wait from now on. A token that was let in before is
    /// one like any other from now on.
    pub fn refused(&mut self, address: Address, token: Option<Token>, now: Instant) -> bool {
        if let Some(token) = token {
            self.admitted.remove(token);
        }
        let is_recent = |refused: &&Refused| now.saturating_duration_since(refused.since) < self.within;
        let mut refused =
            self.refused.get(address).filter(is_recent).copied().unwrap_or(Refused { since: now, times: 0 });
        refused.times = refused.times.saturating_add(1);
        self.refused.put(address, refused);
        refused.times == self.most
    }

    /// This token was let in.
    pub fn admitted(&mut self, token: Token) {
        self.admitted.put(token, ());
    }
}

impl<Key: Copy + Eq + Hash, Value> Latest<Key, Value> {
    fn new() -> Self {
        Self { values: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }

    fn get(&self, key: Key) -> Option<&Value> {
        self.values.get(&key).map(|(_, value)| value)
    }

    fn put(&mut self, key: Key, value: Value) {
        self.remove(key);
        self.values.insert(key, (self.next, value));
        self.order.insert(self.next, key);
        self.next += 1;
        if self.values.len() > REMEMBERED
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

    /// What happened at a second.
    #[derive(Debug, Clone, Copy)]
    enum Happened {
        /// An address was refused, with a token.
        Refused(u64, u8, u8),
        /// A token was let in.
        Admitted(u8),
    }
    use Happened::{Admitted, Refused as No};

    /// The second, the address and the token of which is asked.
    type Asked = (u64, u8, Option<u8>);

    #[test]
    fn who_was_refused_too_often_waits_until_the_time_is_over() {
        // Three times within a minute.
        let thrice = [No(0, 1, 0), No(1, 1, 0), No(2, 1, 0)];
        let table: [(&[Happened], Asked, Option<u64>); _] = [
            (&[], (0, 1, None), None),
            (&thrice[..2], (2, 1, Some(0)), None),
            (&thrice, (2, 1, Some(0)), Some(58)),
            // Whatever it brings, or does not bring; another address need not.
            (&thrice, (2, 1, Some(9)), Some(58)),
            (&thrice, (2, 1, None), Some(58)),
            (&thrice, (2, 2, Some(0)), None),
            (&thrice, (59, 1, Some(0)), Some(1)),
            (&thrice, (60, 1, Some(0)), None),
            // A minute after the first, all of it is forgotten.
            (&[No(0, 1, 0), No(1, 1, 0), No(60, 1, 0)], (60, 1, Some(0)), None),
            (&[No(0, 1, 0), No(60, 1, 0), No(61, 1, 0), No(62, 1, 0)], (62, 1, Some(0)), Some(58)),
            // What was let in goes on, until it is refused itself.
            (&[&[Admitted(7)][..], &thrice].concat(), (2, 1, Some(7)), None),
            (&[&thrice[..], &[Admitted(7)]].concat(), (2, 1, Some(7)), None),
            (&[&[Admitted(7)][..], &thrice, &[No(3, 2, 7)]].concat(), (3, 1, Some(7)), Some(57)),
        ];
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        for (happened, (second, address, token), expected) in table {
            let mut throttle = Throttle::new(3, Duration::from_mins(1));
            for happened in happened {
                match *happened {
                    No(second, address, token) => {
                        throttle.refused(address, Some(token), at(second));
                    }
                    Admitted(token) => throttle.admitted(token),
                }
            }
            let wait = throttle.wait(address, token, at(second));
            assert_eq!(wait, expected.map(Duration::from_secs), "{happened:?} {second} {address} {token:?}");
        }
    }

    #[test]
    fn that_an_address_has_to_wait_is_said_once_a_time() {
        let start = Instant::now();
        let mut throttle: Throttle<u8, u8> = Throttle::new(2, Duration::from_mins(1));
        let said = [0, 1, 2, 3, 60, 61, 62].map(|second| {
            let at = start + Duration::from_secs(second);
            throttle.refused(1, None, at)
        });
        assert_eq!(said, [false, true, false, false, false, true, false]);
    }

    #[test]
    fn the_oldest_are_forgotten_and_memory_is_bounded() {
        let now = Instant::now();
        let mut throttle: Throttle<u32, u32> = Throttle::new(1, Duration::from_mins(1));
        throttle.admitted(0);
        for address in 0..=10_000 {
            throttle.refused(address, Some(1_000_000 + address), now);
            throttle.admitted(address);
            // This one comes again and again.
            throttle.refused(5, None, now);
        }
        for (address, is_remembered) in [(0, false), (1, true), (5, true), (10_000, true)] {
            assert_eq!(throttle.wait(address, None, now).is_some(), is_remembered, "{address}");
        }
        for (token, is_remembered) in [(0, false), (1, true), (10_000, true)] {
            assert_eq!(throttle.wait(5, Some(token), now).is_none(), is_remembered, "{token}");
        }
        for (values, order) in [
            (throttle.refused.values.len(), throttle.refused.order.len()),
            (throttle.admitted.values.len(), throttle.admitted.order.len()),
        ] {
            assert_eq!((values, order), (REMEMBERED, REMEMBERED));
        }
    }
}
