//! The part of the service's state that reads use: the store, the links and the clock.
//!
//! Read operations and pages take a [`Site`] instead of the whole [`App`](super::app::App): they reach no lock, no limit
//! and no metric.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::http::links::Links;
use super::log_signer::LogSigner;
use super::maintenance::clock::Clock;
use super::policies::Policies;
use model::Timestamp;
use store::Store;

/// A cheap handle: all clones share the same parts.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) store: Store,
    parts: Arc<SiteParts>,
}

/// The site of pages, whose store may be a replica.
pub(super) struct PageSite(pub(super) Site);

pub(super) struct SiteParts {
    pub(super) links: Links,
    pub(super) log_signer: LogSigner,
    pub(super) clock: Clock,
    pub(super) policies: Policies,
    /// The default of `silent_after`, for environments that do not declare their own.
    pub(super) silent_after: Duration,
}

impl Site {
    pub(super) fn new(
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
    pub(super) fn with_store(&self, store: Store) -> Self {
        Self { store, ..self.clone() }
    }
}

impl SiteParts {
    /// The current time of the service.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Deref for Site {
    type Target = SiteParts;

    fn deref(&self) -> &SiteParts {
        &self.parts
    }
}
