//! Whether the daemon is ready: each first list is complete and each watch fresh. That the compliance
//! service is down makes no pod unready, since another one would not reach it either.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use crate::process::admin::{Admin, Check};
use crate::process::metrics;

/// What is looked at by probes and scrapes.
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
        let stopping = self.shutdown.is_cancelled().then(|| "the agent is stopping".to_owned());
        let mut checks = vec![Check { name: "running".to_owned(), failure: stopping }];
        let state = self.shared.lock();
        for watched in &state.watches {
            let why = watched.failing().map(|words| format!(": {words}")).unwrap_or_default();
            let is_listed = state.roster.is_listed(watched.of.as_ref());
            let unlisted = (!is_listed).then(|| format!("the first list is not complete{why}"));
            checks.push(Check { name: format!("list {}", watched.label()), failure: unlisted });
            let silent = watched.contact.map(|contact| now.saturating_duration_since(contact));
            let unheard = match silent {
                None => Some(format!("nothing was heard yet{why}")),
                Some(silent) if silent >= self.stale => {
                    Some(format!("nothing was heard for {silent:.0?}{why}"))
                }
                Some(_) => None,
            };
            checks.push(Check { name: format!("watch {}", watched.label()), failure: unheard });
        }
        checks
    }

    fn metrics(&self) -> String {
        self.shared.measure(Instant::now());
        metrics::text(&self.registry)
    }
}
