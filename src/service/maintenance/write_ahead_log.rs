//! Writes the write-ahead log of SQLite back into the database file, so that commits need not.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::periodic::repeat;
use crate::service::app::App;

/// Interval of the check whether the log is long.
const INTERVAL: Duration = Duration::from_secs(1);

/// Checks the log until `shutdown`. Does nothing on PostgreSQL.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    if !app.site.store.has_single_writer() {
        return shutdown.cancelled().await;
    }
    let what = "write SQLite's write-ahead log back into the database file";
    repeat(INTERVAL, &shutdown, what, || app.site.store.checkpoint()).await;
}
