//! Repeats a background task, and logs its failures.

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use model::failure_log::{FailureLog, LogAction};
use runtime::error_causes;

/// Interval between log lines about failures with the same cause, unless the task is rarer.
pub(crate) const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Ticks at once, and then after each interval, give or take a twentieth: replicas that started together do not poll the
/// database together.
pub(crate) struct Ticks {
    every: Duration,
    next: tokio::time::Instant,
}

impl Ticks {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, next: tokio::time::Instant::now() }
    }

    /// Waits for the next tick. Cancel safe.
    pub(crate) async fn tick(&mut self) {
        sleep_until(self.next).await;
        self.next = tokio::time::Instant::now() + self.every.mul_f64(0.95 + 0.1 * fastrand::f64());
    }
}

/// Logs failures of a task as "failed to `what`", those with the same cause once an interval.
pub(crate) struct TaskFailures {
    what: &'static str,
    log: FailureLog,
}

impl TaskFailures {
    pub(crate) fn new(what: &'static str, reminder_interval: Duration) -> Self {
        Self { what, log: FailureLog::new(reminder_interval) }
    }

    /// Logs a failure, or records a success.
    pub(crate) fn log<T, E: Error + 'static>(&mut self, result: &Result<T, E>) {
        let Err(error) = result else {
            self.log.recovered(Instant::now());
            return;
        };
        let cause = error_causes::describe(error);
        if self.log.failed(&cause, Instant::now()) != LogAction::Suppress {
            tracing::warn!("failed to {}: {cause}", self.what);
        }
    }
}

/// Runs a task at once and at each interval until `shutdown`. Logs failures as "failed to `what`".
pub(crate) async fn repeat<Task: Future<Output = Result<(), E>>, E: Error + 'static>(
    every: Duration,
    shutdown: &CancellationToken,
    what: &'static str,
    mut task: impl FnMut() -> Task,
) {
    let mut ticks = Ticks::new(every);
    let mut failures = TaskFailures::new(what, every.max(REMINDER_INTERVAL));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = ticks.tick() => {}
        }
        failures.log(&task().await);
    }
}
