//! Timeouts of database operations, and sizes of pools.

use std::time::Duration;

/// Timeouts of database operations, and the size of a pool.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseTimeouts {
    /// To get a connection. On SQLite, also for a writer in the write queue.
    pub connection: Duration,
    /// To execute a statement.
    pub statement: Duration,
    /// To get a lock. On SQLite, also for a heartbeat in the write queue.
    pub lock: Duration,
    /// To wait for another process that migrates PostgreSQL.
    pub migration: Duration,
    /// Maximum number of connections per pool. PostgreSQL has one pool for reads and one for writes, and both databases
    /// have [`MAX_AUTHENTICATION_CONNECTIONS`] more.
    pub max_connections: u32,
}

/// Maximum number of connections for tokens and sessions. A look-up takes less than a millisecond.
pub const MAX_AUTHENTICATION_CONNECTIONS: u32 = 4;

impl Default for DatabaseTimeouts {
    fn default() -> Self {
        Self {
            connection: Duration::from_secs(5),
            statement: Duration::from_secs(30),
            lock: Duration::from_secs(10),
            migration: Duration::from_mins(1),
            max_connections: 10,
        }
    }
}
