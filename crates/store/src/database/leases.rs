//! Leases of maintenance: one replica at a time does each task.
//!
//! Each batch renews the lease of its task in its transaction, so that a replica that lost it cannot commit.

use std::time::Duration;

use sqlx::types::Uuid;

use crate::database::transaction::execute;
use crate::{Error, Transaction};
use model::Timestamp;

/// How long a replica keeps a task after its last batch.
const LEASE: Duration = Duration::from_secs(15);

/// Takes or renews the lease of a task; false if another replica has it. Locks the lease until the transaction ends: a
/// replica that lost it cannot commit.
pub async fn take(
    transaction: &mut Transaction,
    task: &str,
    replica: Uuid,
    now: Timestamp,
) -> Result<bool, Error> {
    // A lease that ends too late is from before the clock was set back.
    const TAKE: &str = "
        INSERT INTO leases (task, replica, leased_until) VALUES ($1, $2, $3)
        ON CONFLICT (task) DO UPDATE SET replica = excluded.replica, leased_until = excluded.leased_until
        WHERE leases.replica = excluded.replica OR leases.leased_until <= $4 OR leases.leased_until > $5";
    Ok(execute!(transaction, TAKE, task, replica, now.later(LEASE), now, now.later(2 * LEASE)) > 0)
}

/// Returns all leases of a replica that shuts down.
pub async fn give_back(transaction: &mut Transaction, replica: Uuid) -> Result<(), Error> {
    execute!(transaction, "UPDATE leases SET leased_until = 0 WHERE replica = $1", replica);
    Ok(())
}
