//! Evaluates queued environments (`store::evaluation_queue`), and queues those that became due.
//!
//! `service` runs one task per replica. Environments are taken from the queue and evaluated in one transaction, so that a
//! killed replica loses none. Environments that run the same attested artifacts share a transaction, others have one each,
//! so that other changes of the organization need not wait long.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::types::Uuid;
use tokio_util::sync::CancellationToken;

use super::guard::{Evaluating, MAX_ENVIRONMENTS};
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::model::Timestamp;
use crate::service::app::App;
use crate::service::maintenance::periodic::repeat;
use crate::store;
use crate::store::evaluation_queue::QueuedEnvironment;

/// Evaluates until `shutdown`.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let every = app.limits.evaluation_interval;
    repeat(every, &shutdown, "evaluate queued environments", || drain(&app, &shutdown)).await;
}

/// Evaluates until the queue is empty.
async fn drain(app: &App, shutdown: &CancellationToken) -> Result<(), store::Error> {
    let queued = queue_due(app, || shutdown.is_cancelled()).await;
    loop {
        measure(app).await?;
        if !evaluate_batch(app, || shutdown.is_cancelled()).await? {
            return queued;
        }
    }
}

/// Queues environments that became due, until `stop`. Writes only if there are any. A failure does not stop the other
/// organizations.
async fn queue_due(app: &App, stop: impl Fn() -> bool) -> Result<(), store::Error> {
    let now = app.site.now();
    let organizations = app.site.store.read().await?.due_organizations(now).await?;
    let mut failure = None;
    for organization in organizations.iter().take_while(|_| !stop()) {
        if let Err(error) = queue_due_of(app, organization, now).await {
            failure = Some(error);
        }
    }
    failure.map_or(Ok(()), Err)
}

async fn queue_due_of(app: &App, organization: &str, now: Timestamp) -> Result<(), store::Error> {
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let cause = Cause { kind: CauseKind::Time, by: None };
    evaluating.transaction.queue_due(organization, &cause, now).await?;
    evaluating.commit().await
}

/// Evaluates the first queued environments until `stop`. Returns whether it evaluated any. A failure does not stop the
/// others, except those of the same organization if that is busy.
///
/// # Errors
///
/// The last error, if it evaluated none. The environments stay in the queue.
pub(crate) async fn evaluate_batch(app: &App, stop: impl Fn() -> bool) -> Result<bool, store::Error> {
    let queued = app.site.store.read().await?.queued_evaluations(MAX_ENVIRONMENTS).await?;
    let mut busy = BTreeSet::new();
    let (mut has_evaluated, mut failure) = (false, None);
    for together in group(queued) {
        if stop() {
            break;
        }
        let organization = together.first.organization.clone();
        if busy.contains(&organization) {
            continue;
        }
        match together.evaluate(app).await {
            Ok(is_evaluated) => has_evaluated |= is_evaluated,
            Err(error) => {
                if matches!(error, store::Error::Busy(_)) {
                    busy.insert(organization);
                }
                failure = Some(error);
            }
        }
    }
    failure.filter(|_| !has_evaluated).map_or(Ok(has_evaluated), Err)
}

/// Environments that are evaluated in one transaction.
struct Together {
    first: QueuedEnvironment,
    /// All environments.
    environments: Vec<Uuid>,
}

/// Groups environments with the same attested artifacts. An environment of which all artifacts are evaluated is alone.
fn group(queued: Vec<QueuedEnvironment>) -> Vec<Together> {
    let mut groups: Vec<Together> = Vec::new();
    for environment in queued {
        let QueuedEnvironment { environment: id, organization, cause, artifacts, .. } = &environment;
        let same = groups.iter_mut().find(|Together { first, .. }| {
            artifacts.is_some()
                && (artifacts, cause, organization) == (&first.artifacts, &first.cause, &first.organization)
        });
        match same {
            Some(group) => group.environments.push(*id),
            None => groups.push(Together { environments: vec![*id], first: environment }),
        }
    }
    groups
}

impl Together {
    /// Returns whether it evaluated any: another replica may have taken them.
    async fn evaluate(self, app: &App) -> Result<bool, store::Error> {
        let QueuedEnvironment { organization, name, cause, artifacts, .. } = &self.first;
        let mut evaluating = if artifacts.is_some() {
            Evaluating::exclusive(app, organization).await?
        } else {
            Evaluating::shared(app, organization).await?
        };
        let mut taken = evaluating
            .transaction
            .take_evaluations(organization, self.environments, artifacts.as_ref())
            .await?;
        taken.sort_unstable();
        let &[first, ref rest @ ..] = taken.as_slice() else { return Ok(false) };
        match artifacts {
            None => evaluating.reevaluate(organization, name, cause).await?,
            Some(artifacts) => {
                let environments = first..=rest.last().copied().unwrap_or(first);
                evaluating.evaluate_attested(organization, artifacts, &environments, cause).await?;
            }
        }
        evaluating.commit().await?;
        Ok(true)
    }
}

/// Updates the metrics of the queue.
async fn measure(app: &App) -> Result<(), store::Error> {
    let backlog = app.site.store.read().await?.queue_backlog().await?;
    let oldest = backlog.oldest.map_or(Duration::ZERO, |oldest| app.site.now().since(oldest));
    app.metrics.set_evaluation_queue(backlog.waiting, oldest);
    Ok(())
}
