//! The retention: removes ended runs, snapshots and gaps that are past their environment's retention, every hour.

use tokio_util::sync::CancellationToken;

use crate::process::error_causes;
use crate::service::app::App;
use crate::store;
use crate::store::retention::EnvironmentRetention;

/// Removes rows until `shutdown`.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.limits.retention_interval);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        let environments = match environments(&app).await {
            Ok(environments) => environments,
            Err(error) => {
                log_failure(&error);
                continue;
            }
        };
        let mut removed = 0;
        for environment in environments {
            // A failure of one environment does not stop the others.
            match remove(&app, &environment, &shutdown).await {
                Ok(rows) => removed += rows,
                Err(error) => log_failure(&error),
            }
        }
        if removed > 0 {
            tracing::info!(removed, "removed {removed} rows past their retention");
        }
    }
}

fn log_failure(error: &store::Error) {
    tracing::warn!("failed to remove rows past their retention: {}", error_causes::describe(error));
}

async fn environments(app: &App) -> Result<Vec<EnvironmentRetention>, store::Error> {
    app.site.store.read().await?.environment_retentions().await
}

/// Removes the rows of one environment, one batch per transaction.
async fn remove(
    app: &App,
    environment: &EnvironmentRetention,
    shutdown: &CancellationToken,
) -> Result<u64, store::Error> {
    let horizon = app.site.now().earlier(environment.retention);
    let mut removed = 0;
    while !shutdown.is_cancelled() {
        let mut transaction = app.site.store.write().await?;
        let rows = transaction.remove_before(environment.id, horizon).await?;
        transaction.commit().await?;
        app.metrics.removed_rows(rows);
        removed += rows;
        if rows == 0 {
            break;
        }
    }
    Ok(removed)
}
