//! Evaluates queued environments (`store::policies::evaluation_queue`), and queues those that became due.
//!
//! `service` runs one task per replica. Environments are taken from the queue and evaluated in one transaction, so that a
//! killed replica loses none. Environments that run the same attested artifacts share a transaction, others have one each,
//! so that other changes of the organization need not wait long. An environment that fails is tried again with a growing
//! delay, and alone, so that it delays no other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sqlx::types::Uuid;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::engine::guard::{Evaluating, MAX_ARTIFACTS, MAX_ENVIRONMENTS};
use crate::maintenance::periodic::repeat;
use model::Timestamp;
use model::escape::Escaped;
use model::retry::Backoff;
use rules::notification::{Cause, CauseKind};
use runtime::error_causes::describe;
use store::policies::evaluation_queue::QueuedEnvironment;

/// Maximum number of queued environments that are read at a time.
const MAX_QUEUED: usize = 100;

pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let every = app.limits.evaluation_interval;
    repeat(every, &shutdown, "evaluate queued environments", || drain(&app, &shutdown)).await;
}

/// Evaluates until no queued environment is due.
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
    let organizations =
        store::policies::evaluation_queue::due_organizations(&mut app.site.store.read().await?, now).await?;
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
    store::policies::evaluation_queue::push_due(&mut evaluating.transaction.of(organization), &cause, now)
        .await?;
    evaluating.commit().await
}

/// Evaluates environments of an organization that a request has queued, for a short time: a small change is in effect when it
/// is answered. A transaction that takes longer ends in a task of its own, and the queue has the rest.
pub(crate) async fn evaluate_requested(app: &App, organization: &str) {
    let within = app.limits.requested_evaluation;
    let (app, organization) = (app.clone(), organization.to_owned());
    let evaluating = tokio::spawn(async move {
        let deadline = Instant::now() + within;
        if let Err(error) = evaluate_of(&app, &organization, MAX_QUEUED, &|| Instant::now() >= deadline).await
        {
            log_failure(&organization, &error);
        }
    });
    // An error is the end of the time, or of the process.
    let _ = timeout(within, evaluating).await;
}

fn log_failure(organization: &str, error: &store::Error) {
    let organization = Escaped(organization);
    tracing::warn!("{organization}: failed to evaluate queued environments: {}", describe(error));
}

/// Evaluates the first queued environments until `stop`. Organizations have equal shares, and one that is busy or fails does
/// not stop the others. Returns whether it evaluated or postponed any.
///
/// # Errors
///
/// The last error, if it evaluated none. The environments stay in the queue.
pub(crate) async fn evaluate_batch(app: &App, stop: impl Fn() -> bool) -> Result<bool, store::Error> {
    let now = app.site.now();
    let organizations =
        store::policies::evaluation_queue::organizations(&mut app.site.store.read().await?, now, MAX_QUEUED)
            .await?;
    let share = MAX_QUEUED / organizations.len().max(1);
    let (mut has_changed, mut failure) = (false, None);
    for organization in &organizations {
        match evaluate_of(app, organization, share, &stop).await {
            Ok(is_changed) => has_changed |= is_changed,
            Err(error) => {
                if !matches!(error, store::Error::Busy(_)) {
                    log_failure(organization, &error);
                }
                failure = Some(error);
            }
        }
    }
    failure.filter(|_| !has_changed).map_or(Ok(has_changed), Err)
}

/// The same for one organization, and at most `limit` environments.
async fn evaluate_of(
    app: &App,
    organization: &str,
    limit: usize,
    stop: &impl Fn() -> bool,
) -> Result<bool, store::Error> {
    let now = app.site.now();
    let queued = store::policies::evaluation_queue::list(
        &mut app.site.store.read().await?.of(organization),
        now,
        limit,
    )
    .await?;
    let mut has_changed = false;
    for together in group(queued) {
        if stop() {
            break;
        }
        match together.evaluate(app, organization).await {
            Ok(is_evaluated) => has_changed |= is_evaluated,
            Err(store::Error::Busy(_)) if has_changed => break,
            Err(error @ store::Error::Busy(_)) => return Err(error),
            Err(error) => {
                together.postpone(app, organization, &error).await?;
                has_changed = true;
            }
        }
    }
    Ok(has_changed)
}

/// Environments that are evaluated in one transaction.
struct Together {
    first: QueuedEnvironment,
    /// All environments.
    environments: Vec<Uuid>,
}

/// Groups environments with the same attested artifacts. An environment of which all artifacts are evaluated, or whose last
/// evaluation failed, is alone.
fn group(queued: Vec<QueuedEnvironment>) -> Vec<Together> {
    let mut groups: Vec<Together> = Vec::new();
    for environment in queued {
        let QueuedEnvironment { environment: id, cause, artifacts, attempts, .. } = &environment;
        let number = artifacts.as_ref().map_or(MAX_ARTIFACTS, BTreeSet::len).max(1);
        let size = if *attempts > 0 { 1 } else { (MAX_ARTIFACTS / number).clamp(1, MAX_ENVIRONMENTS) };
        let same = groups.iter_mut().find(|Together { first, environments }| {
            environments.len() < size
                && first.attempts == 0
                && (artifacts, cause) == (&first.artifacts, &first.cause)
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
    async fn evaluate(&self, app: &App, organization: &str) -> Result<bool, store::Error> {
        let QueuedEnvironment { name, cause, artifacts, .. } = &self.first;
        let Some(artifacts) = artifacts else {
            let mut evaluating = Evaluating::shared(app, organization).await?;
            let is_evaluated = evaluating.evaluate_queued(organization, name, cause).await?;
            evaluating.commit().await?;
            return Ok(is_evaluated);
        };
        let mut evaluating = Evaluating::exclusive(app, organization).await?;
        let environments = self.environments.iter().copied();
        let mut taken = store::policies::evaluation_queue::take(
            &mut evaluating.transaction.of(organization),
            environments,
            artifacts,
        )
        .await?;
        taken.sort_unstable();
        let &[first, ref rest @ ..] = taken.as_slice() else { return Ok(false) };
        let environments = first..=rest.last().copied().unwrap_or(first);
        evaluating.evaluate_attested(organization, artifacts, &environments, cause).await?;
        evaluating.commit().await?;
        Ok(true)
    }

    /// Counts a failed attempt. One of several environments may have caused it: the next attempt is alone, and at once.
    async fn postpone(
        &self,
        app: &App,
        organization: &str,
        error: &store::Error,
    ) -> Result<(), store::Error> {
        let QueuedEnvironment { name, attempts, .. } = &self.first;
        let mut due_at = Timestamp::EPOCH;
        if let [environment] = self.environments.as_slice() {
            let [.., seed] = environment.as_bytes();
            let (backoff, earlier) = (Backoff::default(), usize::try_from(*attempts).unwrap_or_default());
            let delay = backoff.delays(u64::from(*seed)).nth(earlier.min(64)).unwrap_or(backoff.max);
            due_at = app.site.now().later(delay);
            let (organization, name) = (Escaped(organization), Escaped(name));
            tracing::warn!(
                %organization, environment = %name, attempt = attempts + 1,
                "{organization}: failed to evaluate the environment {name}: {}", describe(error)
            );
        }
        let mut transaction = app.site.store.write().await?;
        store::policies::evaluation_queue::postpone(
            &mut transaction.of(organization),
            self.environments.iter().copied(),
            due_at,
        )
        .await?;
        transaction.commit().await
    }
}

async fn measure(app: &App) -> Result<(), store::Error> {
    let backlog = store::policies::evaluation_queue::backlog(&mut app.site.store.read().await?).await?;
    let oldest = backlog.oldest.map_or(Duration::ZERO, |oldest| app.site.now().since(oldest));
    app.metrics.set_evaluation_queue(&backlog, oldest);
    Ok(())
}
