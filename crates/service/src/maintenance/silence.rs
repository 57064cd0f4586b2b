//! Records when declared environments become silent and are reported again, with the notifications, and refreshes their
//! metrics.
//!
//! Every replica runs this task, for its metrics; the one with the lease records changes.

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::maintenance::lease::Task;
use crate::maintenance::metrics::MAX_ENVIRONMENTS;
use crate::maintenance::periodic::{REMINDER_INTERVAL, TaskFailures, Ticks};
use model::{Timestamp, Trigger};
use rules::notification::{Cause, CauseKind, Content, EventContent};
use store::Error;
use store::environments::events::NewEvent;
use store::environments::reports::IfLocked;
use store::environments::silence::{MAX_CHANGES, SilenceChange};

pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut ticks = Ticks::new(app.limits.silence_interval);
    let mut failures = TaskFailures::new("check declared environments for silence", REMINDER_INTERVAL);
    let mut defects = TaskFailures::new("record the silence of an environment", REMINDER_INTERVAL);
    // The service accepted no report before its start, nor while the database was unavailable.
    let mut listening_since = app.site.now();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = ticks.tick() => {}
        }
        let checked = check(&app, listening_since, &mut defects).await;
        failures.log(&checked);
        if checked.is_err() {
            listening_since = app.site.now();
        }
    }
}

/// Fails if the database is not available. An environment that fails is logged, and does not stop the others.
async fn check(app: &App, listening_since: Timestamp, defects: &mut TaskFailures) -> Result<(), Error> {
    let (now, default) = (app.site.now(), app.site.silent_after);
    let mut last: Option<SilenceChange> = None;
    let mut recorded = Ok(());
    loop {
        let changes = store::environments::silence::changes(
            &mut app.site.store.read().await?,
            now,
            default,
            listening_since,
            last.as_ref(),
        )
        .await?;
        for change in &changes {
            // One transaction for each, which locks one environment, so that evaluations cannot deadlock with it.
            let Err(error) = record(app, change, now).await else { continue };
            if matches!(error, Error::Unavailable(_)) {
                // The whole database, or only a row that is locked for too long.
                require_writable(app).await?;
            }
            recorded = Err(error);
        }
        if changes.len() < MAX_CHANGES {
            break;
        }
        last = changes.into_iter().next_back();
    }
    defects.log(&recorded);
    let environments =
        store::environments::silence::declared(&mut app.site.store.read().await?, MAX_ENVIRONMENTS).await?;
    app.metrics.set_environments(environments);
    Ok(())
}

async fn require_writable(app: &App) -> Result<(), Error> {
    let mut transaction = app.site.store.write().await?;
    Task::Silence.lease(app, &mut transaction).await?;
    transaction.commit().await
}

async fn record(app: &App, change: &SilenceChange, now: Timestamp) -> Result<(), Error> {
    let mut transaction = app.site.store.write().await?;
    if !Task::Silence.lease(app, &mut transaction).await? {
        return Ok(());
    }
    let locked = store::environments::reports::lock(
        &mut transaction.of(&change.organization),
        &change.name,
        IfLocked::Wait,
    )
    .await?;
    let Some(environment) = locked else { return Ok(()) };
    let at = now.after(Some(environment.changed_at));
    let (trigger, cause) = if change.silent_since.is_none() {
        (Trigger::SilentEnvironment, Cause { kind: CauseKind::Time, by: None })
    } else {
        (Trigger::ReportingEnvironment, Cause { kind: CauseKind::Report, by: environment.reported_by })
    };
    let event = Content {
        trigger,
        occurred_at: at,
        organization: change.organization.clone(),
        environment: change.name.clone(),
        snapshot_index: environment.snapshot,
        compliance: environment.compliance.as_str().to_owned(),
        absence: environment.absence,
        silent_since: change.silent_since.or(Some(change.last_at)),
        cause,
        artifacts: Vec::new(),
        artifacts_total: 0,
    };
    let headline = event.headline();
    let event = NewEvent { environment: environment.id, content: EventContent::Environment(event) };
    let Some(queued) = store::environments::silence::record(&mut transaction, change, event, at).await?
    else {
        return Ok(());
    };
    transaction.commit().await?;
    tracing::info!(organization = %change.organization, environment = %change.name, "{headline}");
    app.committed(&[trigger], queued);
    Ok(())
}
