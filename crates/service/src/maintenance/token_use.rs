//! Records when tokens were last used, at most once per token and hour.
//!
//! Requests add the tokens whose last use is due to be recorded to `App::used_tokens`, and do not wait: a heartbeat must
//! stay one statement. Every replica runs this task.

use std::sync::PoisonError;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::limits::TOKEN_USE_INTERVAL;
use crate::maintenance::periodic::{TaskFailures, Ticks};

/// Records uses until `shutdown`. On an error, the remaining uses are recorded at their next request.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut ticks = Ticks::new(app.limits.token_use_flush_interval);
    let mut failures = TaskFailures::new("record the last use of tokens", TOKEN_USE_INTERVAL);
    loop {
        let is_last = tokio::select! {
            () = shutdown.cancelled() => true,
            () = ticks.tick() => false,
        };
        failures.log(&record(&app).await);
        if is_last {
            return;
        }
    }
}

async fn record(app: &App) -> Result<(), store::Error> {
    let used = std::mem::take(&mut *app.used_tokens.lock().unwrap_or_else(PoisonError::into_inner));
    let now = app.site.now();
    for token in used {
        // One transaction for each: it must not wait for the row of one token while it locks that of another.
        let mut transaction = app.site.store.write().await?;
        store::tokens::record_use(&mut transaction, token, now, now.earlier(TOKEN_USE_INTERVAL)).await?;
        transaction.commit().await?;
    }
    Ok(())
}
