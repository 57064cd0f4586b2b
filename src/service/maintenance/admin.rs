//! What the service says of itself at its admin listener.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::process::admin::{Admin, Check};
use crate::service::app::App;

/// How long a probe waits for the database: within the time that a kubelet gives it by default.
const PROBE: Duration = Duration::from_millis(800);

/// The service, and whether it is about to end.
pub(crate) struct Probed {
    pub(crate) app: App,
    pub(crate) shutdown: CancellationToken,
}

impl Admin for Probed {
    async fn checks(&self) -> Vec<Check> {
        let stopping = self.shutdown.is_cancelled().then(|| "the service is stopping".to_owned());
        let store = self.app.store.clone();
        let ping = tokio::spawn(async move { store.ping().await });
        let database = match timeout(PROBE, ping).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => {
                tracing::debug!("the database does not answer a probe: {error}");
                Some("it cannot be reached".to_owned())
            }
            _ => Some(format!("it does not answer within {PROBE:?}")),
        };
        vec![
            Check { name: "serving".to_owned(), failure: stopping },
            Check { name: "database".to_owned(), failure: database },
        ]
    }

    fn metrics(&self) -> String {
        self.app.metrics.text(self.app.store.connections())
    }
}
