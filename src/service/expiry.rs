//! What only the time changes: an entry of the allow-list that ends. Besides, what was not judged for long is
//! judged again, should something bear on it that nobody judged.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::app::{App, now};
use super::judge;
use crate::domain::model::Timestamp;
use crate::domain::notification::{Cause, CauseKind};
use crate::process::causes;
use crate::store;
use crate::store::verdicts::Due;

/// Judges such environments again, until `shutdown`; all of them when it starts, for another version may have
/// written before.
pub(super) async fn keep(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.policy.expiry_interval);
    let mut within = Duration::ZERO;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        match due(&app, within).await {
            Ok(due) => {
                within = app.policy.judged_within;
                for environment in due {
                    // One that fails does not keep the others.
                    if let Err(error) = judge(&app, &environment).await {
                        behind(&error);
                    }
                }
            }
            Err(error) => behind(&error),
        }
    }
}

fn behind(error: &store::Error) {
    tracing::warn!("verdicts are behind: {}", causes::said_once(error).join(": "));
}

async fn due(app: &App, within: Duration) -> Result<Vec<Due>, store::Error> {
    let within = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
    let stale = Timestamp::from_micros(now().micros().saturating_sub(within));
    app.store.read().await?.due_environments(now(), stale).await
}

async fn judge(app: &App, Due { organization, name }: &Due) -> Result<(), store::Error> {
    let _gate = app.gates.share(organization).await;
    let mut transaction = app.store.write().await?;
    transaction.share_verdicts(organization).await?;
    let cause = Cause { kind: CauseKind::Time, by: None };
    let judged = judge::again(&mut transaction, organization, name, &cause).await?;
    transaction.commit().await?;
    judged.tell(app);
    Ok(())
}
