//! Who may change what verdicts rest on, before a connection is taken for it.
//!
//! The database has a lock for that, by organization. Whoever waits there holds a connection meanwhile, and a
//! few of those would keep every other organization from the database; so they wait here, as far as they are in
//! one process. For the same reason only some of an organization's reports are confirmed or recorded at a time:
//! those of one environment wait for each other, and large ones take long.

use tokio::sync::OwnedSemaphorePermit;

use super::keyed_semaphore::Places;

/// A gate for each organization.
#[derive(Debug)]
pub(crate) struct Gates {
    /// Those who pass: some reports, or one who takes all of it.
    passing: Places<String>,
    /// Those of them, and heartbeats, who wait for nothing but the database.
    writing: Places<String>,
}

/// Held for as long as it lasts.
pub(crate) type Place = Option<OwnedSemaphorePermit>;

impl Gates {
    /// Gates that so many share at a time.
    pub(crate) fn new(sharing: u32) -> Self {
        Self { passing: Places::new(sharing), writing: Places::new(sharing) }
    }

    /// Waits for a place, and for nothing else: what a heartbeat writes is no reason for a verdict.
    pub(crate) async fn place(&self, organization: &str) -> Place {
        self.writing.of(organization.to_owned()).acquire_owned().await.ok()
    }

    /// Lets some others through who share it as well: reports.
    pub(crate) async fn share(&self, organization: &str) -> [Place; 2] {
        // The place last: who waits behind one that passes alone keeps none from heartbeats.
        let pass = self.passing.of(organization.to_owned()).acquire_owned().await.ok();
        [pass, self.place(organization).await]
    }

    /// Lets nobody else through: attestations, and the bootstrap file.
    pub(crate) async fn hold(&self, organization: &str) -> Place {
        self.passing.of(organization.to_owned()).acquire_many_owned(self.passing.each).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn reports_that_wait_behind_an_attestation_leave_heartbeats_their_places() {
        let gates = Gates::new(1);
        let attesting = gates.hold("acme").now_or_never();
        let mut report = pin!(gates.share("acme"));
        assert!(attesting.is_some() && report.as_mut().now_or_never().is_none());
        assert!(gates.place("acme").now_or_never().is_some());
        drop(attesting);
        assert!(report.now_or_never().is_some());
    }

    #[test]
    fn so_many_reports_pass_at_a_time_or_one_attestation_in_the_order_in_which_they_came() {
        let gates = Gates::new(2);
        let [first, second] = [0, 1].map(|_| gates.share("acme").now_or_never());
        let (mut attestation, mut third) = (pin!(gates.hold("acme")), pin!(gates.share("acme")));
        assert!(first.is_some() && second.is_some());
        assert!(attestation.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(attestation.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert!(gates.share("another").now_or_never().is_some());
        drop(second);
        let attesting = attestation.now_or_never();
        assert!(attesting.is_some() && third.as_mut().now_or_never().is_none());
        drop(attesting);
        assert!(third.now_or_never().is_some());
    }
}
