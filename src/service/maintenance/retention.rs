//! Removing what is past its retention, every hour.

use tokio_util::sync::CancellationToken;

use crate::process::error_causes;
use crate::service::app::App;
use crate::store;
use crate::store::retention::Retained;

/// Removes until `shutdown`.
pub(crate) async fn keep(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.policy.retention_interval);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        let environments = match environments(&app).await {
            Ok(environments) => environments,
            Err(error) => {
                behind(&error);
                continue;
            }
        };
        let mut removed = 0;
        for environment in environments {
            // One that fails does not keep the others.
            match remove(&app, &environment, &shutdown).await {
                Ok(rows) => removed += rows,
                Err(error) => behind(&error),
            }
        }
        if removed > 0 {
            tracing::info!(removed, "{removed} rows past their retention were removed");
        }
    }
}

fn behind(error: &store::Error) {
    tracing::warn!("retention is behind: {}", error_causes::said_once(error).join(": "));
}

async fn environments(app: &App) -> Result<Vec<Retained>, store::Error> {
    app.store.read().await?.retained_environments().await
}

/// Removes what is past an environment's retention, a batch at a time.
async fn remove(
    app: &App,
    environment: &Retained,
    shutdown: &CancellationToken,
) -> Result<u64, store::Error> {
    let horizon = app.now().earlier(environment.retention);
    let mut removed = 0;
    while !shutdown.is_cancelled() {
        let mut transaction = app.store.write().await?;
        let rows = transaction.remove_before(environment.id, horizon).await?;
        transaction.commit().await?;
        app.metrics.removed(rows);
        removed += rows;
        if rows == 0 {
            break;
        }
    }
    Ok(removed)
}
