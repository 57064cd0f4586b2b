//! Evaluates queued environments (`store::evaluation_queue`), and queues those that became due.
//!
//! `service` runs one task per replica. Each environment is taken from the queue and evaluated in one transaction, so that
//! a killed replica loses none, and other changes of the organization wait for one environment at most.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::guard::Evaluating;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::failure_log::{FailureLog, LogAction};
use crate::process::error_causes;
use crate::service::app::App;
use crate::store;
use crate::store::evaluation_queue::QueuedEnvironment;

/// Interval between log lines while environments cannot be evaluated.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum number of environments that are read from the queue together.
const BATCH: i64 = 100;

/// Evaluates until `shutdown`.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.limits.evaluation_interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = FailureLog::new(REMINDER_INTERVAL);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        let drained = async {
            queue_due(&app).await?;
            loop {
                measure(&app).await?;
                if !evaluate_batch(&app, || shutdown.is_cancelled()).await? {
                    return Ok::<_, store::Error>(());
                }
            }
        };
        match drained.await {
            Ok(()) => {
                failures.recovered(Instant::now());
            }
            Err(error) => {
                let cause = error_causes::describe(&error);
                if failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                    tracing::warn!("failed to evaluate queued environments: {cause}");
                }
            }
        }
    }
}

/// Queues environments that became due. Writes only if there are any.
async fn queue_due(app: &App) -> Result<(), store::Error> {
    let now = app.site.now();
    if app.site.store.read().await?.has_due(now).await? {
        let mut transaction = app.site.store.write().await?;
        transaction.queue_due(&Cause { kind: CauseKind::Time, by: None }, now).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Evaluates the first queued environments until `stop`. Returns whether it evaluated any. A failure of one environment does
/// not stop the others, except those of the same organization if that is busy.
///
/// # Errors
///
/// The last error, if it evaluated none. The environments stay in the queue.
pub(crate) async fn evaluate_batch(app: &App, stop: impl Fn() -> bool) -> Result<bool, store::Error> {
    let queued = app.site.store.read().await?.queued_evaluations(BATCH).await?;
    let mut busy = BTreeSet::new();
    let (mut has_evaluated, mut failure) = (false, None);
    for environment in &queued {
        if stop() {
            break;
        }
        if busy.contains(&environment.organization) {
            continue;
        }
        match evaluate(app, environment).await {
            Ok(is_evaluated) => has_evaluated |= is_evaluated,
            Err(error) => {
                if matches!(error, store::Error::Busy(_)) {
                    busy.insert(&environment.organization);
                }
                failure = Some(error);
            }
        }
    }
    failure.filter(|_| !has_evaluated).map_or(Ok(has_evaluated), Err)
}

/// Returns whether it evaluated the environment: another replica may have taken it.
async fn evaluate(app: &App, queued: &QueuedEnvironment) -> Result<bool, store::Error> {
    let QueuedEnvironment { environment, organization, name } = queued;
    let mut evaluating = Evaluating::shared(app, organization).await?;
    let Some(cause) = evaluating.transaction.take_evaluation(*environment).await? else { return Ok(false) };
    evaluating.reevaluate(organization, name, &cause).await?;
    evaluating.commit().await?;
    Ok(true)
}

/// Updates the metrics of the queue.
async fn measure(app: &App) -> Result<(), store::Error> {
    let backlog = app.site.store.read().await?.queue_backlog().await?;
    let oldest = backlog.oldest.map_or(Duration::ZERO, |oldest| app.site.now().since(oldest));
    app.metrics.set_evaluation_queue(backlog.waiting, oldest);
    Ok(())
}
