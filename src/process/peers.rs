//! Who connects, and how many connections each has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each peer that has any.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<HashMap<IpAddr, usize>>);

/// A connection that counts, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    peers: Arc<Peers>,
    network: IpAddr,
}

impl Peers {
    /// One more connection of this peer; none where it has as many as this.
    pub(super) fn count(self: &Arc<Self>, peer: IpAddr, most: usize) -> Option<Counted> {
        let network = network(peer);
        let mut peers = self.lock();
        let connections = peers.entry(network).or_default();
        (*connections < most).then(|| {
            *connections += 1;
            Counted { peers: Arc::clone(self), network }
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut peers = self.peers.lock();
        if let Some(connections) = peers.get_mut(&self.network) {
            *connections -= 1;
            if *connections == 0 {
                peers.remove(&self.network);
            }
        }
    }
}

/// What one peer is taken for: whoever has one address of IPv6 has 2^64 of them.
#[must_use]
pub fn network(peer: IpAddr) -> IpAddr {
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

    #[test]
    fn a_peer_has_so_many_connections_whatever_others_have_and_is_forgotten_with_the_last() {
        let peers = Arc::new(Peers::default());
        let count = |peer: &str| peers.count(peer.parse().unwrap(), 2);
        let (one, two) = (count("2001:db8::1").unwrap(), count("2001:db8::2").unwrap());
        assert!(count("2001:db8::3").is_none());
        let other = count("192.0.2.1").unwrap();
        drop(one);
        let three = count("2001:db8::3").unwrap();
        drop((two, three, other));
        assert!(peers.lock().is_empty());
    }
}
