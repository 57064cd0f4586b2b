//! The share of one organization of the database's connections.

/// The connections that one organization may use at the same time: a third of each pool, so that two organizations at
/// their limits leave connections for others and for background work. With ten connections per pool:
///
/// | pool | one organization | two | left |
/// |---|---|---|---|
/// | reads | 3 operations and pages | 6 | 4 |
/// | writes on PostgreSQL | 3 reports and heartbeats, and an attestation | 8 | 2 |
///
/// Tokens and sessions have connections of their own. SQLite has one writer: the writes of an organization, one report or
/// attestation and one heartbeat, wait in one queue with those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionShare {
    pub(crate) reads: u32,
    /// Reports and heartbeats.
    pub(crate) writes: u32,
}

impl ConnectionShare {
    /// From the sizes of the pools for reads and for writes.
    pub(crate) fn from_pools(readers: u32, writers: u32) -> Self {
        Self { reads: (readers / 3).max(1), writes: (writers / 3).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_organizations_at_their_limits_leave_connections() {
        for size in 6..100 {
            let share = ConnectionShare::from_pools(size, size);
            assert!(2 * share.reads < size, "{size}: {share:?}");
            let attestations = 2;
            assert!(2 * share.writes + attestations <= size, "{size}: {share:?}");
        }
        assert_eq!(ConnectionShare::from_pools(10, 10), ConnectionShare { reads: 3, writes: 3 });
        assert_eq!(ConnectionShare::from_pools(10, 1), ConnectionShare { reads: 3, writes: 1 }, "SQLite");
    }
}
