//! Readiness of the daemon: every first list is complete and every watch is fresh.
//!
//! Called by probes and scrapes. An outage of the compliance service does not affect readiness, because
//! another pod would not reach it either.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use runtime::admin::{Admin, Check};
use runtime::metrics;

/// Answers probes and scrapes.
pub(super) struct Health {
    shared: Arc<Shared>,
    registry: Registry,
    stale: Duration,
    shutdown: CancellationToken,
}

impl Health {
    pub(super) fn new(
        shared: Arc<Shared>,
        registry: Registry,
        stale: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        Self { shared, registry, stale, shutdown }
    }
}

impl Admin for Health {
    async fn checks(&self) -> Vec<Check> {
        let now = Instant::now();
        let stopping = self.shutdown.is_cancelled().then(|| "the agent is shutting down".to_owned());
        let mut checks = vec![Check { name: "running".to_owned(), failure: stopping, warning: None }];
        let state = self.shared.lock();
        for watch in &state.watches {
            let cause = watch.last_failure().map(|cause| format!(": {cause}")).unwrap_or_default();
            let unlisted =
                (!watch.is_listed(&state.live_set)).then(|| format!("the first list is not complete{cause}"));
            checks.push(Check { name: format!("list {}", watch.label()), failure: unlisted, warning: None });
            let age = watch.contact.map(|contact| now.saturating_duration_since(contact));
            let outdated = match age {
                None => Some(format!("no response from the API server yet{cause}")),
                Some(age) if age >= self.stale => {
                    Some(format!("no response from the API server for {age:.0?}{cause}"))
                }
                Some(_) => None,
            };
            checks.push(Check { name: format!("watch {}", watch.label()), failure: outdated, warning: None });
        }
        checks
    }

    fn metrics(&self) -> String {
        self.shared.measure(Instant::now());
        metrics::text(&self.registry)
    }
}
