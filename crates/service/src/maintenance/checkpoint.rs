//! Writes the checkpoints of logs that have new entries, every hour, to the service's log and to notification targets.
//!
//! Every replica runs this task; the one with the lease writes a checkpoint that is due.

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::maintenance::lease::Task;
use crate::maintenance::periodic::repeat;
use model::escape::Escaped;
use model::{Timestamp, Trigger};
use rules::notification::CheckpointContent;
use runtime::signing::SigningError;

#[derive(Debug, thiserror::Error)]
enum CheckpointError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Signing(#[from] SigningError),
}

pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let every = app.limits.checkpoint_interval;
    repeat(every, &shutdown, "write the checkpoints of the logs", || write(&app)).await;
}

/// Writes the checkpoints that are due. An earlier one of another replica counts if it is less than an interval old, with a
/// tolerance for the times of ticks.
async fn write(app: &App) -> Result<(), CheckpointError> {
    let now = app.site.now();
    let before = now.earlier(app.limits.checkpoint_interval * 9 / 10);
    let organizations = store::log::due_checkpoints(&mut app.site.store.read().await?, before).await?;
    let mut failure = None;
    for organization in organizations {
        if let Err(error) = write_one(app, organization, before, now).await {
            failure = Some(error);
        }
    }
    failure.map_or(Ok(()), Err)
}

async fn write_one(
    app: &App,
    organization: String,
    before: Timestamp,
    now: Timestamp,
) -> Result<(), CheckpointError> {
    // One transaction for each: it holds the lock of the log's head.
    let mut transaction = app.site.store.write().await?;
    if !Task::Checkpoints.lease(app, &mut transaction).await? {
        return Ok(());
    }
    let Some(head) = store::log::take_checkpoint(&mut transaction.of(&organization), before, now).await?
    else {
        return Ok(());
    };
    let checkpoint = app.site.log_signer.checkpoint(&organization, head)?;
    let content = CheckpointContent {
        trigger: Trigger::Checkpoint,
        occurred_at: now,
        organization: organization.clone(),
        checkpoint: checkpoint.clone(),
    };
    let queued = store::environments::events::insert_checkpoint(&mut transaction, content, now).await?;
    // Before the commit: no replica writes this checkpoint again. The entries themselves are committed.
    tracing::info!(
        %organization, entries = head.size, checkpoint,
        "checkpoint of the log of {organization}, {} entries: {}", head.size, Escaped(&checkpoint)
    );
    transaction.commit().await?;
    app.committed(&[], queued);
    Ok(())
}
