//! Waits for permits of semaphores. Each wait has a deadline, since a waiting request may hold other permits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use store::Error;

/// Releases its limit when dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

/// A permit, or [`Error::Busy`] with this description of the limit if there is none at the deadline.
pub(crate) async fn acquire(
    semaphore: Arc<Semaphore>,
    deadline: Instant,
    limit: &'static str,
) -> Result<Permit, Error> {
    acquire_many(semaphore, 1, deadline, limit).await
}

pub(crate) async fn acquire_many(
    semaphore: Arc<Semaphore>,
    permits: u32,
    deadline: Instant,
    limit: &'static str,
) -> Result<Permit, Error> {
    let permit = timeout_at(deadline, semaphore.acquire_many_owned(permits)).await;
    permit.ok().and_then(Result::ok).ok_or(Error::Busy(limit))
}
