//! What only the time changes: an entry of the allow-list that ends. Besides, what was not judged for long is
//! judged again, should something bear on it that nobody judged.

use tokio_util::sync::CancellationToken;

use super::app::{App, now};
use super::judge;
use crate::domain::model::Timestamp;
use crate::domain::notification::{Cause, CauseKind};
use crate::process::causes;
use crate::store;
use crate::store::verdicts::Due;

/// Judges such environments again, until `shutdown`.
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
    let stale = i64::try_from(app.policy.judged_within.as_micros()).unwrap_or(i64::MAX);
    let stale = Timestamp::from_micros(now().micros().saturating_sub(stale));
    let due = app.store.read().await?.due_environments(now(), stale).await?;
    for Due { organization, name } in due {
        let mut transaction = app.store.write().await?;
        transaction.share_verdicts(&organization).await?;
        let cause = Cause { kind: CauseKind::Time, by: None };
        let judged = judge::again(&mut transaction, &organization, &name, &cause).await?;
        transaction.commit().await?;
        judged.tell(app);
    }
    Ok(())
}
