//! The part of the service's state that reads use: the store, the links and the clock.
//!
//! Read operations and pages take a [`Site`] instead of the whole [`App`](crate::app::App): they reach no lock, no limit
//! and no metric.
//!
//! All code reads the current time from `Site::now`, whose clock can be set; timers use tokio's clock.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::log_signer::LogSigner;
use crate::engine::policies::Policies;
use crate::http::links::Links;
use crate::maintenance::clock::Clock;
use model::Timestamp;
use store::Store;

/// A cheap handle: all clones share the same parts.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) store: Store,
    parts: Arc<SiteParts>,
}

/// The site of pages, whose store may be a replica.
pub(crate) struct PageSite(pub(crate) Site);

pub(crate) struct SiteParts {
    pub(crate) links: Links,
    pub(crate) log_signer: LogSigner,
    pub(crate) clock: Clock,
    pub(crate) policies: Policies,
    /// The default of `silent_after`, for environments that do not declare their own.
    pub(crate) silent_after: Duration,
}

impl Site {
    pub(crate) fn new(
        store: Store,
        links: Links,
        log_signer: LogSigner,
        clock: Clock,
        silent_after: Duration,
    ) -> Self {
        let policies = Policies::default();
        Self { store, parts: Arc::new(SiteParts { links, log_signer, clock, policies, silent_after }) }
    }

    /// The same, with another store.
    pub(crate) fn with_store(&self, store: Store) -> Self {
        Self { store, ..self.clone() }
    }
}

impl SiteParts {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Deref for Site {
    type Target = SiteParts;

    fn deref(&self) -> &SiteParts {
        &self.parts
    }
}
