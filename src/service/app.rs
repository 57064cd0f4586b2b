//! What every request needs: the store, the limits, the addresses, the metrics.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::{Notify, Semaphore};

use super::http::body::{Budget, Pace};
use super::http::links::Links;
use super::limits::authentication::Throttle;
use super::limits::keyed_semaphore::Places;
use super::limits::organization_lock::Gates;
use super::maintenance::clock::Clock;
use super::maintenance::metrics::Metrics;
use super::notify::Addresses;
use super::operations::attest::MOST_DATA;
use super::pages::Invitation;
use crate::domain::evidence::session;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::domain::retry::Backoff;
use crate::store::Store;

/// Limits, and how long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// The largest report, in bytes.
    pub report: u64,
    /// The largest attachment of an attestation, in bytes.
    pub attachment: u64,
    /// How slow a body may come.
    pub pace: Pace,
    /// The memory that bodies may take at once, in KiB; those of one organization take half of it at most.
    pub inbound_kibibytes: u32,
    /// How long an answer, or a page, waits for its turn.
    pub turn: Duration,
    /// The memory that answers may take until they were read, in KiB; those to one organization take half of it at most.
    pub outbound_kibibytes: u32,
    /// How many requests run at once, those included whose clients went away.
    pub requests: usize,
    /// How long an environment may be silent where it does not say itself.
    pub silent_after: Duration,
    /// How often what is past its retention is removed.
    pub retention_interval: Duration,
    /// How many requests without a valid token an address may send before it has to wait.
    pub wrong_tokens: u32,
    /// Within how long it may.
    pub wrong_tokens_within: Duration,
    /// How often the files of the certificate are looked at.
    pub certificate_interval: Duration,
    /// How often is looked for entries of the allow-list that ended.
    pub expiry_interval: Duration,
    /// How long an environment with a policy goes at most without being judged.
    pub judged_within: Duration,
    /// How notifications are sent.
    pub delivery: Delivery,
    /// How long browsers stay signed in.
    pub session: session::Policy,
}

/// How notifications are sent.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// How often is looked for what others put into the outbox, and for what is due again.
    pub interval: Duration,
    /// How long one try may take.
    pub timeout: Duration,
    /// How long one that was taken in hand belongs to who took it: longer than a try.
    pub lease: Duration,
    /// How long to wait between tries.
    pub backoff: Backoff,
    /// How long a target that fails is left alone at most.
    pub rest: Duration,
    /// How long one is tried.
    pub patience: Duration,
    /// How many targets are sent to at once.
    pub at_once: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            report: 64 * 1024 * 1024,
            attachment: 10 * 1024 * 1024,
            pace: Pace::default(),
            inbound_kibibytes: 256 * 1024,
            turn: Duration::from_secs(10),
            outbound_kibibytes: 256 * 1024,
            requests: 1024,
            silent_after: Duration::from_mins(3),
            retention_interval: Duration::from_hours(1),
            wrong_tokens: 10,
            wrong_tokens_within: Duration::from_mins(1),
            certificate_interval: Duration::from_secs(10),
            expiry_interval: Duration::from_secs(1),
            judged_within: Duration::from_mins(10),
            delivery: Delivery::default(),
            session: session::Policy::default(),
        }
    }
}

impl Policy {
    /// These limits, where so much memory, in bytes, is all that there is: a quarter of it for what is received and a
    /// quarter for answers, since what is read of them, and the database, take as much again and more.
    #[must_use]
    pub fn within(self, memory: u64) -> Self {
        let quarter = u32::try_from(memory / 4 / 1024).unwrap_or(u32::MAX);
        let inbound_kibibytes = self.inbound_kibibytes.min(quarter);
        // A larger one would never have its share.
        let most = Budget::of_one(inbound_kibibytes);
        Self {
            report: self.report.min(most),
            attachment: self.attachment.min(most.saturating_sub(MOST_DATA)),
            inbound_kibibytes,
            outbound_kibibytes: self.outbound_kibibytes.min(quarter),
            ..self
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            backoff: Backoff {
                first: Duration::from_secs(5),
                most: Duration::from_hours(1),
                ..Backoff::default()
            },
            rest: Duration::from_mins(1),
            patience: Duration::from_hours(24),
            at_once: 64,
        }
    }
}

/// Shared by all requests.
#[derive(Clone)]
pub(super) struct App(Arc<Parts>);

pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) policy: Policy,
    pub(super) clock: Clock,
    pub(super) links: Links,
    pub(super) metrics: Metrics,
    pub(super) throttle: Throttle,
    pub(super) inbound: Budget,
    pub(super) outbound: Budget,
    /// One permit for each request that may run.
    pub(super) running: Arc<Semaphore>,
    /// One permit for each page that may be made.
    pub(super) looking: Arc<Semaphore>,
    /// Those of them that one token may have.
    pub(super) looking_by: Places<Fingerprint>,
    /// Those that one organization may have.
    pub(super) looking_of: Places<String>,
    /// The answers that one token may be reading.
    pub(super) reading_by: Places<Fingerprint>,
    /// Those that one organization may.
    pub(super) reading_of: Places<String>,
    /// Taken before a transaction that judges.
    pub(super) gates: Gates,
    /// Told when something was put into the outbox.
    pub(super) outbox: Notify,
    /// Where notifications go.
    pub(super) addresses: Addresses,
    /// The internal networks among those places.
    pub(super) allowed_internal: Vec<IpNet>,
    /// What a browser may sign in with once.
    pub(super) invitation: Invitation,
}

impl App {
    pub(super) fn new(
        store: Store,
        policy: &Policy,
        clock: Clock,
        links: Links,
        allowed_internal: Vec<IpNet>,
    ) -> Self {
        let policy = *policy;
        let (inbound, outbound) =
            (Budget::new(policy.inbound_kibibytes), Budget::new(policy.outbound_kibibytes));
        let throttle = Throttle::new(&policy);
        let running = Arc::new(Semaphore::new(policy.requests));
        let gates = Gates::new(store.writes_of_one());
        let (reading_by, reading_of) =
            (Places::new(store.reads_of_token()), Places::new(store.reads_of_organization()));
        Self(Arc::new(Parts {
            store,
            policy,
            clock,
            links,
            metrics: Metrics::new(),
            throttle,
            inbound,
            outbound,
            running,
            looking: Arc::new(Semaphore::new(super::pages::AT_ONCE)),
            looking_by: Places::new(super::pages::AT_ONCE_BY_ONE),
            looking_of: Places::new(super::pages::AT_ONCE_BY_ONE),
            reading_by,
            reading_of,
            gates,
            outbox: Notify::new(),
            addresses: Addresses::default(),
            allowed_internal,
            invitation: Invitation::default(),
        }))
    }
}

impl Parts {
    /// What time it is for the service.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::unconstrained;

    use super::*;

    #[test]
    fn what_is_received_and_what_answers_take_are_held_to_a_quarter_of_the_memory_each() {
        let kept = |policy: Policy| (policy.inbound_kibibytes, policy.outbound_kibibytes, policy.report);
        let policy = Policy::default();
        assert_eq!(kept(policy.within(4 << 30)), kept(policy));
        assert_eq!(kept(policy.within(256 << 20)), (64 * 1024, 64 * 1024, 32 << 20));
    }

    #[tokio::test]
    async fn whatever_is_not_too_large_has_its_share_however_much_memory_there_is() {
        for megabytes in 16..1_024 {
            let policy = Policy::default().within(megabytes * 1_000_000);
            for largest in [policy.report, policy.attachment + MOST_DATA] {
                let mut share = Budget::new(policy.inbound_kibibytes).share("acme");
                let growing = share.grow(usize::try_from(largest).unwrap());
                let grown = unconstrained(growing).now_or_never();
                assert!(grown.is_some_and(|grown| grown.is_ok()), "{largest} bytes of {megabytes} MB");
            }
        }
    }
}
