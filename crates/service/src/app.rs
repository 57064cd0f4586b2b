//! The state that all requests and background tasks share.
//!
//! The module imports no operation and no page. Read operations and pages receive its [`Site`] only.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use ipnet::IpNet;
use sqlx::types::Uuid;
use tokio::sync::{Mutex, Notify, Semaphore};
use tokio::time::{Instant, timeout};

use crate::engine::log_signer::LogSigner;
use crate::engine::notify::addresses::{AddressBook, Addresses};
use crate::http::anonymous_requests::AnonymousRequests;
use crate::http::body::Budget;
use crate::http::links::Links;
use crate::http::unknown_fields::UnknownFieldWarnings;
use crate::identity::Identities;
use crate::identity::invitation::Invitation;
use crate::limits::Limits;
use crate::limits::authentication::AuthenticationLimiter;
use crate::limits::connections::ConnectionShare;
use crate::limits::keyed_semaphore::KeyedSemaphore;
use crate::limits::organization_lock::OrganizationLocks;
use crate::maintenance::clock::Clock;
use crate::maintenance::metrics::Metrics;
use crate::site::{PageSite, Site};
use model::{Fingerprint, Trigger};
use store::Store;
use store::environments::events::Queued;

/// Networks that the service treats differently from others.
pub(crate) struct Networks {
    pub(crate) allowed_internal: Vec<IpNet>,
    pub(crate) trusted_proxies: Vec<IpNet>,
}

/// A cheap handle: all clones share the same parts.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) site: Site,
    /// The same, whose store is a replica that may be late.
    pub(crate) replica_site: Option<Site>,
    /// Identifies this process among the replicas of the service.
    pub(crate) replica: Uuid,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) limiter: AuthenticationLimiter,
    /// Memory for request bodies.
    pub(crate) inbound: Budget,
    /// Memory for responses.
    pub(crate) outbound: Budget,
    /// One permit per running request: in total and per organization.
    pub(crate) running: Arc<Semaphore>,
    pub(crate) running_of: KeyedSemaphore,
    /// One permit per operation or page that reads from the database: per organization.
    pub(crate) connections_of: KeyedSemaphore,
    /// Acquired before a transaction that evaluates.
    pub(crate) organization_locks: OrganizationLocks,
    /// Notified after a commit that adds notifications to the outbox.
    pub(crate) outbox: Notify,
    /// The addresses of notification targets.
    pub(crate) addresses: Addresses,
    /// The internal networks that notifications may reach.
    pub(crate) allowed_internal: Vec<IpNet>,
    /// The networks of proxies that name the addresses of their clients.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Requests without a token that the access log counts.
    pub(crate) anonymous: AnonymousRequests,
    /// Issuers whose tokens are accepted, and their keys.
    pub(crate) identities: Identities,
    pub(crate) invitation: Invitation,
    pub(crate) unknown_fields: UnknownFieldWarnings,
    /// Tokens whose use is to be recorded.
    pub(crate) used_tokens: std::sync::Mutex<BTreeSet<Fingerprint>>,
    /// Time and result of the last check of the database: requests without a token share it.
    checked: Mutex<Option<(Instant, bool)>>,
}

impl App {
    pub(crate) fn new(
        store: Store,
        replica: Option<Store>,
        limits: &Limits,
        clock: Clock,
        links: Links,
        log_signer: LogSigner,
        networks: Networks,
    ) -> Self {
        let Networks { allowed_internal, trusted_proxies } = networks;
        let pools = store.pool_sizes();
        let share = ConnectionShare::from_pools(pools.readers, pools.writers);
        let site = Site::new(store, links, log_signer, clock, limits.silent_after);
        Self(Arc::new(Parts {
            replica_site: replica.map(|replica| site.with_store(replica)),
            site,
            replica: store::new_id(),
            limits: *limits,
            metrics: Metrics::new(),
            limiter: AuthenticationLimiter::new(limits),
            inbound: Budget::new(limits.inbound_kibibytes),
            outbound: Budget::new(limits.outbound_kibibytes),
            running: Arc::new(Semaphore::new(limits.requests)),
            running_of: KeyedSemaphore::new(limits.requests_per_organization()),
            connections_of: KeyedSemaphore::new(share.reads),
            organization_locks: OrganizationLocks::new(share.writes),
            outbox: Notify::new(),
            addresses: Addresses::default(),
            allowed_internal,
            trusted_proxies,
            anonymous: AnonymousRequests::default(),
            identities: Identities::default(),
            invitation: Invitation::default(),
            unknown_fields: UnknownFieldWarnings::default(),
            used_tokens: std::sync::Mutex::default(),
            checked: Mutex::new(None),
        }))
    }
}

/// Validity of a check of the database, and its timeout.
const CHECKED_FOR: Duration = Duration::from_secs(1);

impl App {
    /// Counts committed events, and wakes the sender of their notifications.
    pub(crate) fn committed(&self, triggers: &[Trigger], queued: Queued) {
        for trigger in triggers {
            self.metrics.event(*trigger);
        }
        self.metrics.merged_notifications(queued.merged);
        if queued.notifications > 0 {
            self.outbox.notify_one();
        }
    }

    /// Whether the database responds.
    pub(crate) async fn is_ready(&self) -> bool {
        let mut checked = self.checked.lock().await;
        if let Some((at, is_ready)) = *checked
            && at.elapsed() < CHECKED_FOR
        {
            return is_ready;
        }
        let store = self.site.store.clone();
        let ping = tokio::spawn(async move { store.ping().await });
        let is_ready = matches!(timeout(CHECKED_FOR, ping).await, Ok(Ok(Ok(()))));
        *checked = Some((Instant::now(), is_ready));
        is_ready
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl FromRef<App> for Arc<AddressBook> {
    fn from_ref(app: &App) -> Self {
        app.addresses.current()
    }
}

impl FromRef<App> for PageSite {
    fn from_ref(app: &App) -> Self {
        Self(app.replica_site.as_ref().unwrap_or(&app.site).clone())
    }
}

impl FromRef<App> for Site {
    fn from_ref(app: &App) -> Self {
        app.site.clone()
    }
}
