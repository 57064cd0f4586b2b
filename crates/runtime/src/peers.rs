//! Counts the connections of each peer, for the limit per peer of the listener.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of connections per peer.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<HashMap<IpAddr, usize>>);

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    peers: Arc<Peers>,
    network: IpAddr,
}

impl Peers {
    /// Counts a connection of a peer; `None` if the peer has `max` connections already.
    pub(super) fn try_add(self: &Arc<Self>, peer: IpAddr, max: usize) -> Option<ConnectionGuard> {
        let network = network(peer);
        let mut peers = self.lock();
        let connections = peers.entry(network).or_default();
        (*connections < max).then(|| {
            *connections += 1;
            ConnectionGuard { peers: Arc::clone(self), network }
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionGuard {
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

/// The network that counts as one peer: an IPv4 address, or an IPv6 /64, in which a host can use any address.
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
    fn peer_is_an_ipv4_address_or_an_ipv6_network() {
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
    fn connections_are_limited_per_peer_and_removed_with_the_last() {
        let peers = Arc::new(Peers::default());
        let add = |peer: &str| peers.try_add(peer.parse().unwrap(), 2);
        let (one, two) = (add("2001:db8::1").unwrap(), add("2001:db8::2").unwrap());
        assert!(add("2001:db8::3").is_none());
        let other = add("192.0.2.1").unwrap();
        drop(one);
        let three = add("2001:db8::3").unwrap();
        drop((two, three, other));
        assert!(peers.lock().is_empty());
    }
}
