//! What only the time changes: an entry of the allow-list that ends. Besides, what was not judged for long is
//! judged again, should something bear on it that nobody judged.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::evaluate;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::failure_log::{Outage, Say};
use crate::process::error_causes;
use crate::service::app::App;
use crate::store;
use crate::store::verdicts::Due;

/// From one line about a database that does not answer to the next.
const REMIND: Duration = Duration::from_mins(1);

/// Judges such environments again, until `shutdown`; all of them when it starts, for another version may have
/// written before.
pub(crate) async fn keep(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.policy.expiry_interval);
    let mut within = Duration::ZERO;
    let mut outage = Outage::new(REMIND);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        match due(&app, within).await {
            Ok(due) => {
                within = app.policy.judged_within;
                let mut failed = false;
                for environment in due {
                    // One that fails does not keep the others.
                    if let Err(error) = judge(&app, &environment).await {
                        failed = true;
                        behind(&mut outage, &error);
                    }
                }
                if !failed {
                    outage.over(Instant::now());
                }
            }
            Err(error) => behind(&mut outage, &error),
        }
    }
}

fn behind(outage: &mut Outage, error: &store::Error) {
    let words = error_causes::said_once(error).join(": ");
    if outage.failed(&words, Instant::now()) != Say::Nothing {
        tracing::warn!("verdicts are behind: {words}");
    }
}

async fn due(app: &App, within: Duration) -> Result<Vec<Due>, store::Error> {
    app.store.read().await?.due_environments(app.now(), app.now().earlier(within)).await
}

async fn judge(app: &App, Due { organization, name }: &Due) -> Result<(), store::Error> {
    let _gate = app.gates.share(organization).await;
    let mut transaction = app.store.write().await?;
    transaction.share_verdicts(organization).await?;
    let cause = Cause { kind: CauseKind::Time, by: None };
    let judged = evaluate::again(&mut transaction, organization, &[name], &cause, &app.clock).await?;
    transaction.commit().await?;
    judged.tell(app);
    Ok(())
}
