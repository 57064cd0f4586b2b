//! Decides which connections a listener has: within its limits, and fairly between peers.
//!
//! A new connection always finds room while others are idle, so that idle ones keep out no probe and no client.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The open connections of all peers, within the limits of a listener.
#[derive(Debug)]
pub(super) struct Peers {
    max: usize,
    max_per_peer: usize,
    open: Mutex<OpenConnections>,
    /// A connection has ended or become idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    connections: HashMap<u64, OpenConnection>,
    per_network: HashMap<IpAddr, usize>,
    next: u64,
}

#[derive(Debug)]
struct OpenConnection {
    network: IpAddr,
    /// Since when it has had no running request; `None` while it has one.
    idle_since: Option<Instant>,
    /// Whether it has had a request.
    was_used: bool,
    evicted: CancellationToken,
}

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    peers: Arc<Peers>,
    id: u64,
    /// Cancelled when the connection is to be closed for another one.
    pub(super) evicted: CancellationToken,
}

/// A running request of a connection, which keeps it from being evicted.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<ConnectionGuard>);

/// A peer has all connections that it may have, with a running request each.
#[derive(Debug)]
pub(super) struct PeerLimit;

impl Peers {
    pub(super) fn new(max: usize) -> Self {
        Self { max, max_per_peer: max.div_ceil(2), open: Mutex::default(), changed: Notify::new() }
    }

    /// Counts a connection of a peer. Above a limit, it evicts an idle one: for a peer with half of all connections
    /// one of its own, otherwise one of the peer with most. Waits while none is idle.
    pub(super) async fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<Arc<ConnectionGuard>, PeerLimit> {
        loop {
            if let Some(admitted) = self.try_admit(network(peer)) {
                return admitted.map(Arc::new);
            }
            self.changed.notified().await;
        }
    }

    fn try_admit(self: &Arc<Self>, network: IpAddr) -> Option<Result<ConnectionGuard, PeerLimit>> {
        let mut open = self.lock();
        if open.per_network.get(&network).is_some_and(|count| *count >= self.max_per_peer) {
            if !open.evict(|connection| connection.network == network) {
                return Some(Err(PeerLimit));
            }
        } else if open.connections.len() >= self.max && !open.evict(|_| true) {
            return None;
        }
        let (id, evicted) = (open.next, CancellationToken::new());
        open.next += 1;
        *open.per_network.entry(network).or_default() += 1;
        let idle_since = Some(Instant::now());
        let connection = OpenConnection { network, idle_since, was_used: false, evicted: evicted.clone() };
        open.connections.insert(id, connection);
        Some(Ok(ConnectionGuard { peers: Arc::clone(self), id, evicted }))
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Evicts an idle connection of the peer with most connections: the oldest without any request, or the one that has
    /// been idle longest. Returns whether one was idle.
    fn evict(&mut self, among: impl Fn(&OpenConnection) -> bool) -> bool {
        let idle = self.connections.iter().filter(|(_, connection)| among(connection));
        let idle = idle.filter_map(|(id, connection)| {
            let of_network = self.per_network.get(&connection.network).copied().unwrap_or_default();
            Some((Reverse(of_network), connection.was_used, connection.idle_since?, *id))
        });
        let Some((.., id)) = idle.min() else { return false };
        self.remove(id);
        true
    }

    fn remove(&mut self, id: u64) {
        let Some(OpenConnection { network, evicted, .. }) = self.connections.remove(&id) else { return };
        evicted.cancel();
        if let Some(count) = self.per_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.per_network.remove(&network);
            }
        }
    }
}

impl ConnectionGuard {
    /// Marks the connection as busy until the returned guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> RequestGuard {
        self.set_idle_since(None);
        RequestGuard(Arc::clone(self))
    }

    fn set_idle_since(&self, since: Option<Instant>) {
        if let Some(connection) = self.peers.lock().connections.get_mut(&self.id) {
            connection.idle_since = since;
            connection.was_used = true;
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.set_idle_since(Some(Instant::now()));
        self.0.peers.changed.notify_one();
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.peers.lock().remove(self.id);
        self.peers.changed.notify_one();
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
    use std::pin::pin;

    use futures_util::FutureExt;

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

    fn admit(peers: &Arc<Peers>, peer: &str) -> Option<Result<Arc<ConnectionGuard>, PeerLimit>> {
        peers.admit(peer.parse().unwrap()).now_or_never()
    }

    fn admitted(peers: &Arc<Peers>, peer: &str) -> Arc<ConnectionGuard> {
        admit(peers, peer).expect("it waits").expect("the peer has half")
    }

    #[test]
    fn peer_with_half_of_the_connections_evicts_its_own_longest_idle_one() {
        let peers = Arc::new(Peers::new(4));
        let (one, two) = (admitted(&peers, "2001:db8::1"), admitted(&peers, "2001:db8::2"));
        let request = one.request();
        let three = admitted(&peers, "2001:db8::3");
        assert_eq!([&one, &two, &three].map(|guard| guard.evicted.is_cancelled()), [false, true, false]);
        let requests = [request, three.request()];
        assert!(matches!(admit(&peers, "2001:db8::4"), Some(Err(PeerLimit))));
        let other = admitted(&peers, "192.0.2.1");
        drop((one, two, three, other, requests));
        let open = peers.lock();
        assert!(open.connections.is_empty() && open.per_network.is_empty());
    }

    #[test]
    fn connection_without_any_request_is_evicted_before_a_used_one() {
        let peers = Arc::new(Peers::new(4));
        let (used, unused) = (admitted(&peers, "192.0.2.1"), admitted(&peers, "192.0.2.1"));
        drop(used.request());
        let next = admitted(&peers, "192.0.2.1");
        assert!(!used.evicted.is_cancelled() && unused.evicted.is_cancelled());
        drop(next.request());
        let last = admitted(&peers, "192.0.2.1");
        assert!(used.evicted.is_cancelled() && !next.evicted.is_cancelled() && !last.evicted.is_cancelled());
    }

    #[test]
    fn connection_above_the_total_evicts_an_idle_one_of_the_peer_with_most() {
        let peers = Arc::new(Peers::new(5));
        let oldest = admitted(&peers, "192.0.2.1");
        let many = [2; 2].map(|peer| admitted(&peers, &format!("192.0.2.{peer}")));
        let most = [3; 2].map(|peer| admitted(&peers, &format!("192.0.2.{peer}")));
        let requests = many.each_ref().map(ConnectionGuard::request);
        let probe = admitted(&peers, "192.0.2.4");
        assert!(!oldest.evicted.is_cancelled() && most[0].evicted.is_cancelled());
        drop((requests, probe));
    }

    #[tokio::test]
    async fn connection_waits_while_none_is_idle() {
        let peers = Arc::new(Peers::new(2));
        let (one, two) = (admitted(&peers, "192.0.2.1"), admitted(&peers, "192.0.2.2"));
        let requests = [one.request(), two.request()];
        let mut waiting = pin!(peers.admit("192.0.2.3".parse().unwrap()));
        assert!(waiting.as_mut().now_or_never().is_none());
        let [request, running] = requests;
        drop(request);
        let three = waiting.await.unwrap();
        assert!(one.evicted.is_cancelled() && !three.evicted.is_cancelled());
        drop((running, two));
    }
}
