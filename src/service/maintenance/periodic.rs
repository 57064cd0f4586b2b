//! Repeats a background task, and logs its failures.

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::domain::failure_log::{FailureLog, LogAction};
use crate::process::error_causes;

/// Interval between log lines about failures with the same cause, unless the task is rarer.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Runs a task at once and at each interval until `shutdown`. Logs failures as "failed to `what`".
pub(crate) async fn repeat<Task: Future<Output = Result<(), E>>, E: Error + 'static>(
    every: Duration,
    shutdown: &CancellationToken,
    what: &str,
    mut task: impl FnMut() -> Task,
) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = FailureLog::new(every.max(REMINDER_INTERVAL));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
        }
        match task().await {
            Ok(()) => {
                failures.recovered(Instant::now());
            }
            Err(error) => {
                let cause = error_causes::describe(&error);
                if failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                    tracing::warn!("failed to {what}: {cause}");
                }
            }
        }
    }
}
