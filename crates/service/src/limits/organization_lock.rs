//! Locks of organizations in this process, acquired before a connection of the database.
//!
//! The database has its own lock per organization, but waiting for that one occupies a connection: a few waiting requests
//! would block every other organization. Requests of this process therefore wait here. The number of concurrent reports of
//! an organization is limited for the same reason.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::keyed_semaphore::KeyedSemaphore;
use crate::limits::permit::{self, Permit};
use store::Error;

/// The limit that all of these locks enforce.
const LIMIT: &str = "this organization has reached its limit of concurrent writes";

/// A lock per organization: shared by reports and queued evaluations of whole environments, exclusive for attestations,
/// their queued evaluations, the bootstrap file and the retention. Each wait for it ends with [`Error::Busy`] after a timeout.
#[derive(Debug)]
pub(crate) struct OrganizationLocks {
    /// One permit per report; all of them for an exclusive lock.
    evaluating: KeyedSemaphore,
    /// The permit to wait for an exclusive lock: a report waits for one attestation, not for all that came before.
    turn: KeyedSemaphore,
    /// One permit per report, heartbeat or session that uses the database.
    writing: KeyedSemaphore,
}

impl OrganizationLocks {
    /// At most `max_shared` holders share the lock of an organization.
    pub(crate) fn new(max_shared: u32) -> Self {
        let [evaluating, turn, writing] = [max_shared, 1, max_shared].map(KeyedSemaphore::new);
        Self { evaluating, turn, writing }
    }

    /// For a heartbeat or a session, which changes no verdict: limits concurrency only.
    pub(crate) async fn heartbeat(&self, organization: &str, timeout: Duration) -> Result<Permit, Error> {
        self.write(organization, Instant::now() + timeout).await
    }

    /// For a report or a queued evaluation.
    pub(crate) async fn shared(&self, organization: &str, timeout: Duration) -> Result<[Permit; 2], Error> {
        let deadline = Instant::now() + timeout;
        // In this order: a report that waits for an exclusive holder must not occupy a heartbeat's permit.
        let evaluating = permit::acquire(self.evaluating.get(organization), deadline, LIMIT).await?;
        Ok([evaluating, self.write(organization, deadline).await?])
    }

    /// For an attestation, the bootstrap file or the retention.
    pub(crate) async fn exclusive(
        &self,
        organization: &str,
        timeout: Duration,
    ) -> Result<[Permit; 2], Error> {
        let deadline = Instant::now() + timeout;
        let turn = permit::acquire(self.turn.get(organization), deadline, LIMIT).await?;
        let (semaphore, all) = (self.evaluating.get(organization), self.evaluating.each);
        Ok([turn, permit::acquire_many(semaphore, all, deadline, LIMIT).await?])
    }

    async fn write(&self, organization: &str, deadline: Instant) -> Result<Permit, Error> {
        permit::acquire(self.writing.get(organization), deadline, LIMIT).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn waiting_reports_do_not_block_heartbeats() {
        let organization_locks = OrganizationLocks::new(1);
        let attesting = organization_locks.exclusive("acme", LONG).now_or_never();
        let mut report = pin!(organization_locks.shared("acme", LONG));
        assert!(attesting.is_some() && report.as_mut().now_or_never().is_none());
        assert!(organization_locks.heartbeat("acme", LONG).now_or_never().is_some());
        drop(attesting);
        assert!(report.now_or_never().is_some());
    }

    #[tokio::test]
    async fn lock_is_shared_by_reports_or_exclusive_in_order_of_arrival() {
        let organization_locks = OrganizationLocks::new(2);
        let [first, second] = [0, 1].map(|_| organization_locks.shared("acme", LONG).now_or_never());
        let (mut attestation, mut third) =
            (pin!(organization_locks.exclusive("acme", LONG)), pin!(organization_locks.shared("acme", LONG)));
        assert!(first.is_some() && second.is_some());
        assert!(attestation.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(attestation.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert!(organization_locks.shared("another", LONG).now_or_never().is_some());
        drop(second);
        let attesting = attestation.now_or_never();
        assert!(attesting.is_some() && third.as_mut().now_or_never().is_none());
        drop(attesting);
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn report_waits_for_one_of_many_attestations() {
        let organization_locks = OrganizationLocks::new(2);
        let first = organization_locks.exclusive("acme", LONG).now_or_never();
        let mut second = pin!(organization_locks.exclusive("acme", LONG));
        let mut report = pin!(organization_locks.shared("acme", LONG));
        assert!(second.as_mut().now_or_never().is_none() && report.as_mut().now_or_never().is_none());
        drop(first);
        let reporting = report.now_or_never();
        assert!(reporting.is_some() && second.as_mut().now_or_never().is_none());
        drop(reporting);
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test]
    async fn lock_returns_busy_after_the_timeout() {
        let organization_locks = OrganizationLocks::new(2);
        let attesting = organization_locks.exclusive("acme", Duration::ZERO).await.unwrap();
        let heartbeats = [
            organization_locks.heartbeat("acme", Duration::ZERO).await.unwrap(),
            organization_locks.heartbeat("acme", Duration::ZERO).await.unwrap(),
        ];
        let is_busy = |error: Option<Error>| matches!(error, Some(Error::Busy(LIMIT)));
        assert!(is_busy(organization_locks.shared("acme", Duration::ZERO).await.err()));
        assert!(is_busy(organization_locks.exclusive("acme", Duration::ZERO).await.err()));
        assert!(is_busy(organization_locks.heartbeat("acme", Duration::ZERO).await.err()));
        drop(attesting);
        assert!(
            is_busy(organization_locks.shared("acme", Duration::ZERO).await.err()),
            "heartbeats hold all write permits"
        );
        drop(heartbeats);
        assert!(organization_locks.shared("acme", Duration::ZERO).await.is_ok());
    }
}
