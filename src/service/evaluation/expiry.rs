//! Re-evaluation without a change: environments whose allow-list entries expired, and environments whose evaluation is
//! too old.
//!
//! `service` runs one task per replica. All replicas may evaluate the same environment; the locks make that harmless.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::guard::Evaluating;
use crate::domain::evidence::notification::{Cause, CauseKind};
use crate::domain::failure_log::{FailureLog, LogAction};
use crate::process::error_causes;
use crate::service::app::App;
use crate::store;
use crate::store::verdicts::DueEnvironment;

/// Interval between log lines while the database is unavailable.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Re-evaluates until `shutdown`. The first pass evaluates all environments, since another version of the program may
/// have written before.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(app.limits.expiry_interval);
    let mut max_age = Duration::ZERO;
    let mut failures = FailureLog::new(REMINDER_INTERVAL);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        match due(&app, max_age).await {
            Ok(due) => {
                max_age = app.limits.evaluated_within;
                let mut failed = false;
                for environment in due {
                    // A failure of one environment does not stop the others.
                    if let Err(error) = evaluate(&app, &environment).await {
                        failed = true;
                        log_failure(&mut failures, &error);
                    }
                }
                if !failed {
                    failures.recovered(Instant::now());
                }
            }
            Err(error) => log_failure(&mut failures, &error),
        }
    }
}

fn log_failure(failures: &mut FailureLog, error: &store::Error) {
    let cause = error_causes::describe(error);
    if failures.failed(&cause, Instant::now()) != LogAction::Suppress {
        tracing::warn!("failed to re-evaluate environments: {cause}");
    }
}

async fn due(app: &App, max_age: Duration) -> Result<Vec<DueEnvironment>, store::Error> {
    app.site.store.read().await?.due_environments(app.site.now(), app.site.now().earlier(max_age)).await
}

async fn evaluate(
    app: &App,
    DueEnvironment { organization, name }: &DueEnvironment,
) -> Result<(), store::Error> {
    let mut evaluating = Evaluating::shared(app, organization).await?;
    let cause = Cause { kind: CauseKind::Time, by: None };
    evaluating.reevaluate(organization, &[name], &cause).await?;
    evaluating.commit().await
}
