//! Records when tokens were last used, at most once per token and hour, and learns the tokens that other replicas create.
//!
//! Requests add the tokens whose last use is due to be recorded to `App::used_tokens`, and do not wait: a heartbeat must
//! stay one statement. Every replica runs this task.

use std::sync::PoisonError;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::limits::TOKEN_USE_INTERVAL;
use crate::maintenance::periodic::{TaskFailures, Ticks};

/// Age up to which a token counts as new.
const NEW: Duration = Duration::from_mins(5);

/// Records uses until `shutdown`. On an error, the remaining uses are recorded at their next request.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut ticks = Ticks::new(app.limits.token_use_flush_interval);
    let mut failures = TaskFailures::new("record the last use of tokens", TOKEN_USE_INTERVAL);
    let mut learning = TaskFailures::new("read new tokens", TOKEN_USE_INTERVAL);
    loop {
        let is_last = tokio::select! {
            () = shutdown.cancelled() => true,
            () = ticks.tick() => false,
        };
        failures.log(&record(&app).await);
        learning.log(&learn(&app).await);
        if is_last {
            return;
        }
    }
}

/// Tokens that other replicas created are valid here too, whatever others send from their addresses.
async fn learn(app: &App) -> Result<(), store::Error> {
    // Clocks of replicas differ.
    let since = app.site.now().earlier(NEW);
    for token in store::tokens::authentication::created_since(&app.site.store, since).await? {
        app.limiter.admitted(token);
    }
    Ok(())
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
