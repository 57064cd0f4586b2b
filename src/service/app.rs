//! What every request needs: the store, the limits, the addresses, the metrics.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;

use super::body::{Budget, Pace};
use super::links::Links;
use super::metrics::Metrics;
use super::throttle::Throttle;
use crate::domain::model::Timestamp;
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
    /// The memory that bodies may take at once, in KiB.
    pub inbound_kibibytes: u32,
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
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            report: 64 * 1024 * 1024,
            attachment: 10 * 1024 * 1024,
            pace: Pace::default(),
            inbound_kibibytes: 256 * 1024,
            requests: 1024,
            silent_after: Duration::from_mins(3),
            retention_interval: Duration::from_hours(1),
            wrong_tokens: 10,
            wrong_tokens_within: Duration::from_mins(1),
            certificate_interval: Duration::from_secs(10),
        }
    }
}

/// Shared by all requests.
#[derive(Clone)]
pub(super) struct App(Arc<Parts>);

pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) policy: Policy,
    pub(super) links: Links,
    pub(super) metrics: Metrics,
    pub(super) throttle: Throttle,
    pub(super) inbound: Budget,
    /// One permit for each request that may run.
    pub(super) running: Arc<Semaphore>,
}

impl App {
    pub(super) fn new(store: Store, policy: Policy, links: Links, metrics: Metrics) -> Self {
        let inbound = Budget::new(policy.inbound_kibibytes);
        let throttle = Throttle::new(&policy);
        let running = Arc::new(Semaphore::new(policy.requests));
        Self(Arc::new(Parts { store, policy, links, metrics, throttle, inbound, running }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The service's own clock.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
