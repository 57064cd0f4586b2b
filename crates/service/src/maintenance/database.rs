//! Writes the write-ahead log of SQLite back into the database file, so that commits need not, and rereads the password of
//! PostgreSQL.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::maintenance::periodic::repeat;
use store::Store;

/// How long a write-ahead log grows, and a rotated password is not used yet.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs the one that the database needs, until `shutdown`.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let store = &app.site.store;
    if let Store::Sqlite(pools) = store {
        let what = "write SQLite's write-ahead log back into the database file";
        repeat(INTERVAL, &shutdown, what, || pools.checkpoint()).await;
    } else {
        repeat(INTERVAL, &shutdown, "reread the database password", async || {
            store.reread_password().await?;
            match &app.replica_site {
                Some(replica) => replica.store.reread_password().await,
                None => Ok(()),
            }
        })
        .await;
    }
}
