//! Writes the write-ahead log of SQLite back into the database file, so that commits need not.

use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::domain::failure_log::{FailureLog, LogAction};
use crate::process::error_causes;
use crate::service::app::App;

/// Interval of the check whether the log is long.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval between log lines while the file cannot be written.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Checks the log until `shutdown`. Does nothing on PostgreSQL.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    if !app.site.store.has_single_writer() {
        return shutdown.cancelled().await;
    }
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = FailureLog::new(REMINDER_INTERVAL);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        match app.site.store.checkpoint().await {
            Ok(()) => {
                failures.recovered(Instant::now());
            }
            Err(error) => {
                let cause = error_causes::describe(&error);
                if failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                    tracing::warn!(
                        "failed to write SQLite's write-ahead log back into the database file: {cause}"
                    );
                }
            }
        }
    }
}
