//! Removing what is past its retention, every hour.

use tokio_util::sync::CancellationToken;

use super::app::{App, now};
use crate::domain::model::Timestamp;
use crate::process::causes;
use crate::store;

/// Removes until `shutdown`.
pub(super) async fn keep(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.policy.retention_interval);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        match remove(&app).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "{rows} rows past their retention were removed"),
            Err(error) => {
                tracing::warn!("retention is behind: {}", causes::said_once(&error).join(": "));
            }
        }
    }
}

/// One environment at a time, so that reports get their turn.
async fn remove(app: &App) -> Result<u64, store::Error> {
    let environments = app.store.read().await?.retained_environments().await?;
    let mut removed = 0;
    for environment in environments {
        let retention = i64::try_from(environment.retention.as_micros()).unwrap_or(i64::MAX);
        let horizon = Timestamp::from_micros(now().micros().saturating_sub(retention));
        let mut transaction = app.store.write().await?;
        let rows = transaction.remove_before(environment.id, horizon).await?;
        transaction.commit().await?;
        app.metrics.removed(rows);
        removed += rows;
    }
    Ok(removed)
}
