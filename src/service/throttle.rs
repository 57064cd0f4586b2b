//! Wrong tokens cost whoever sends them a wait, before the database is asked.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::app::Policy;
use super::problem::Problem;
use crate::domain::model::Fingerprint;
use crate::domain::throttle;

/// Shared by all requests. Requests that are asked about at once are all let through: what is bounded is what
/// follows, and how many there are at once is bounded elsewhere.
#[derive(Debug)]
pub(super) struct Throttle(Mutex<throttle::Throttle<IpAddr, Fingerprint>>);

impl Throttle {
    pub(super) fn new(policy: &Policy) -> Self {
        Self(Mutex::new(throttle::Throttle::new(policy.wrong_tokens, policy.wrong_tokens_within)))
    }

    /// 429 where too many wrong tokens came from this peer.
    pub(super) fn check(&self, peer: IpAddr, token: Option<Fingerprint>) -> Result<(), Problem> {
        match self.lock().wait(network(peer), token, Instant::now()) {
            None => Ok(()),
            Some(wait) => Err(Problem::too_many(wait)),
        }
    }

    /// A wrong token came from this peer, or none.
    pub(super) fn refused(&self, peer: IpAddr, token: Option<Fingerprint>) {
        let waits = self.lock().refused(network(peer), token, Instant::now());
        if waits {
            tracing::warn!(
                %peer,
                "too many wrong tokens came from {peer}: for a while, tokens that were not valid before wait"
            );
        }
    }

    /// This token is valid.
    pub(super) fn admitted(&self, token: Fingerprint) {
        self.lock().admitted(token);
    }

    fn lock(&self) -> MutexGuard<'_, throttle::Throttle<IpAddr, Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one peer is taken for: whoever has one address of IPv6 has 2^64 of them.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(peer) => peer.into(),
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_its_address_of_ipv4_or_its_network_of_ipv6() {
        for (peer, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("::1", "::"),
        ] {
            assert_eq!(network(peer.parse().unwrap()), expected.parse::<IpAddr>().unwrap(), "{peer}");
        }
    }
}
