//! Probes and metrics of the service, for the admin listener.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use runtime::admin::{Admin, Check};

/// Timeout of the database check, below the kubelet's default of one second for a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// The state that probes report.
pub(crate) struct Probed {
    pub(crate) app: App,
    pub(crate) shutdown: CancellationToken,
}

impl Admin for Probed {
    async fn checks(&self) -> Vec<Check> {
        let stopping = self.shutdown.is_cancelled().then(|| "shutting down".to_owned());
        let store = self.app.site.store.clone();
        let ping = tokio::spawn(async move { store.ping().await });
        let database = match timeout(PROBE_TIMEOUT, ping).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => {
                tracing::debug!("failed to check the database: {error}");
                Some("unavailable".to_owned())
            }
            _ => Some(format!("timed out after {PROBE_TIMEOUT:?}")),
        };
        vec![
            Check { name: "serving".to_owned(), failure: stopping, warning: None },
            Check { name: "database".to_owned(), failure: database, warning: None },
            Check {
                name: "bootstrap".to_owned(),
                failure: None,
                warning: self.app.metrics.stale_bootstrap(),
            },
        ]
    }

    fn metrics(&self) -> String {
        let issuers = self.app.identities.remote.statuses();
        let (open, idle) = self.app.site.store.connections();
        self.app.metrics.text(open, idle, issuers.into_iter())
    }
}
