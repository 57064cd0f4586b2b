//! Locks of organizations in this process, acquired before a connection of the database.
//!
//! The database has its own lock per organization, but waiting for that one occupies a connection: a few waiting requests
//! would block every other organization. Requests of this process therefore wait here. The number of concurrent reports of
//! an organization is limited for the same reason.

use tokio::sync::OwnedSemaphorePermit;

use super::keyed_semaphore::KeyedSemaphore;

/// A lock per organization: shared by reports, exclusive for attestations and the bootstrap file.
#[derive(Debug)]
pub(crate) struct OrganizationLocks {
    /// One permit per report; all of them for an exclusive lock.
    evaluating: KeyedSemaphore<String>,
    /// One permit per report or heartbeat that uses the database.
    writing: KeyedSemaphore<String>,
}

/// Releases the lock when dropped.
pub(crate) type Permit = Option<OwnedSemaphorePermit>;

impl OrganizationLocks {
    /// At most `max_shared` holders share the lock of an organization.
    pub(crate) fn new(max_shared: u32) -> Self {
        Self { evaluating: KeyedSemaphore::new(max_shared), writing: KeyedSemaphore::new(max_shared) }
    }

    /// For a heartbeat, which changes no verdict: limits concurrency only.
    pub(crate) async fn heartbeat(&self, organization: &str) -> Permit {
        self.writing.get(organization.to_owned()).acquire_owned().await.ok()
    }

    /// For a report.
    pub(crate) async fn shared(&self, organization: &str) -> [Permit; 2] {
        // In this order: a report that waits for an exclusive holder must not occupy a heartbeat's permit.
        let evaluating = self.evaluating.get(organization.to_owned()).acquire_owned().await.ok();
        [evaluating, self.heartbeat(organization).await]
    }

    /// For an attestation, or the bootstrap file.
    pub(crate) async fn exclusive(&self, organization: &str) -> Permit {
        self.evaluating.get(organization.to_owned()).acquire_many_owned(self.evaluating.each).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn waiting_reports_do_not_block_heartbeats() {
        let organization_locks = OrganizationLocks::new(1);
        let attesting = organization_locks.exclusive("acme").now_or_never();
        let mut report = pin!(organization_locks.shared("acme"));
        assert!(attesting.is_some() && report.as_mut().now_or_never().is_none());
        assert!(organization_locks.heartbeat("acme").now_or_never().is_some());
        drop(attesting);
        assert!(report.now_or_never().is_some());
    }

    #[test]
    fn lock_is_shared_by_reports_or_exclusive_in_order_of_arrival() {
        let organization_locks = OrganizationLocks::new(2);
        let [first, second] = [0, 1].map(|_| organization_locks.shared("acme").now_or_never());
        let (mut attestation, mut third) =
            (pin!(organization_locks.exclusive("acme")), pin!(organization_locks.shared("acme")));
        assert!(first.is_some() && second.is_some());
        assert!(attestation.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(attestation.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert!(organization_locks.shared("another").now_or_never().is_some());
        drop(second);
        let attesting = attestation.now_or_never();
        assert!(attesting.is_some() && third.as_mut().now_or_never().is_none());
        drop(attesting);
        assert!(third.now_or_never().is_some());
    }
}
