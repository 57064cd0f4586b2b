//! What only the time changes: an entry of the allow-list that ends.

use tokio_util::sync::CancellationToken;

use super::app::{App, now};
use super::judge;
use crate::domain::notification::{Cause, CauseKind};
use crate::process::causes;
use crate::store;
use crate::store::verdicts::Due;

/// Judges the environments again that stood as something let them that ended, until `shutdown`.
pub(super) async fn keep(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.policy.expiry_interval);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        if let Err(error) = judge_due(&app).await {
            tracing::warn!("verdicts are behind: {}", causes::said_once(&error).join(": "));
        }
    }
}

async fn judge_due(app: &App) -> Result<(), store::Error> {
    let due = app.store.read().await?.due_environments(now()).await?;
    for Due { organization, name } in due {
        let mut transaction = app.store.write().await?;
        transaction.share_verdicts(&organization).await?;
        let cause = Cause { kind: CauseKind::Expiry, by: None };
        let judged = judge::again(&mut transaction, &organization, &name, &cause).await?;
        transaction.commit().await?;
        judged.tell(app);
    }
    Ok(())
}
