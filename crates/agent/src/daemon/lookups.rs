//! Looks up whether named namespaces without pods exist.
//!
//! Runs when a list is complete, and periodically while a namespace does not exist.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::shared::Shared;
use crate::cluster::Cluster;
use crate::live::confirmation::Existence;
use model::failure_log::{FailureLog, LogAction};
use runtime::error_causes;

/// Runs until it is cancelled.
pub(super) async fn run(
    shared: Arc<Shared>,
    cluster: Cluster,
    interval: Duration,
    reminder_interval: Duration,
) {
    let mut failures = FailureLog::new(reminder_interval);
    loop {
        for name in shared.namespaces_to_look_up() {
            match cluster.namespace(&name).await {
                Ok(existence) => {
                    failures.recovered(Instant::now());
                    shared.set_existence(&name, existence);
                }
                Err(error) => {
                    let cause = error_causes::with_hint(&error_causes::describe(&error), error.hint());
                    match failures.failed(&cause, Instant::now()) {
                        LogAction::Suppress => tracing::debug!("{cause}"),
                        LogAction::New | LogAction::Ongoing(..) => tracing::warn!("{cause}"),
                    }
                    shared.set_existence(&name, Existence::Unknown);
                }
            }
        }
        let _ = timeout(interval, shared.list_completed()).await;
    }
}
