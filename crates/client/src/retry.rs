//! Retries with backoff until a deadline.
//!
//! Used by single runs and commands, also for requests to the cluster; the daemon retries by its cadence instead.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use model::pluralize;
use model::retry::{self, Backoff, Retryable};
use runtime::error_causes;

/// Maximum number of attempts at a time.
const MAX_CONCURRENT: usize = 8;

/// An operation failed permanently, or until its deadline.
#[derive(Debug, thiserror::Error)]
pub enum RetryError<E: Retryable + 'static> {
    /// A retry would fail again.
    #[error(transparent)]
    Permanent(Box<E>),
    /// The next attempt would start after the deadline.
    #[error("gave up after {} in {:.1} s: {}", pluralize((*.attempts).into(), "attempt"), elapsed.as_secs_f32(), no_time_left(*.retry_after))]
    Exhausted {
        /// Number of attempts.
        attempts: u32,
        /// Time since the first attempt.
        elapsed: Duration,
        /// Retry-After of the last response, if that is later than the deadline.
        retry_after: Option<Duration>,
        /// The last failure.
        #[source]
        last: Box<E>,
    },
    /// No attempt completed.
    #[error("{operation} timed out after {:.1} s (--timeout)", elapsed.as_secs_f32())]
    TimedOut {
        /// Description of the operation.
        operation: String,
        /// Time since the first attempt.
        elapsed: Duration,
    },
}

impl<E: Retryable + 'static> From<E> for RetryError<E> {
    fn from(error: E) -> Self {
        Self::Permanent(Box::new(error))
    }
}

impl<E: Retryable + 'static> RetryError<E> {
    /// The failure of the last completed attempt.
    #[must_use]
    pub fn last(&self) -> Option<&E> {
        match self {
            Self::Permanent(last) | Self::Exhausted { last, .. } => Some(last),
            Self::TimedOut { .. } => None,
        }
    }
}

/// A point in time until which operations are retried, and the delays between attempts.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    /// Until when an operation is retried without a connection.
    connected_by: Instant,
    backoff: Backoff,
}

impl Deadline {
    /// A deadline after this duration from now.
    #[must_use]
    pub fn after(within: Duration, backoff: Backoff) -> Self {
        let at = Instant::now() + within;
        Self { at, connected_by: at, backoff }
    }

    /// Gives up after this duration from now if there is no connection.
    #[must_use]
    pub fn connected_within(self, within: Duration) -> Self {
        Self { connected_by: self.at.min(Instant::now() + within), ..self }
    }

    /// Time until the deadline.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// A deadline after half of the remaining time.
    #[must_use]
    pub fn half(self) -> Self {
        Self { at: Instant::now() + self.remaining() / 2, ..self }
    }

    /// Runs an operation and retries transient failures. `operation` describes it in errors.
    ///
    /// # Errors
    ///
    /// [`RetryError`] after a permanent failure, or at the deadline.
    pub async fn retry<R, E: Retryable + 'static>(
        self,
        operation: &str,
        mut attempt: impl AsyncFnMut() -> Result<R, E>,
    ) -> Result<R, RetryError<E>> {
        self.retry_cut(operation, async || Some(attempt().await)).await
    }

    /// As [`Self::retry`], with attempts that return `None` when they are cut off.
    async fn retry_cut<R, E: Retryable + 'static>(
        self,
        operation: &str,
        mut attempt: impl AsyncFnMut() -> Option<Result<R, E>>,
    ) -> Result<R, RetryError<E>> {
        let start = Instant::now();
        let (mut attempts, mut last) = (0, None);
        for delay in self.backoff.delays(seed()) {
            attempts += 1;
            let failure = match timeout_at(self.at, attempt()).await {
                Ok(Some(Ok(result))) => return Ok(result),
                Ok(Some(Err(failure))) if !failure.is_transient() => {
                    return Err(failure.into());
                }
                Ok(Some(Err(failure))) => failure,
                Ok(None) if delay < self.remaining() => {
                    tracing::warn!("{operation} takes too long; retrying in {:.1} s", delay.as_secs_f32());
                    sleep(delay).await;
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            let retry_after = failure.retry_after().and_then(|v| retry::retry_after(v, SystemTime::now()));
            let delay = self.backoff.with_retry_after(delay, retry_after);
            if failure.is_unconnected()
                && Instant::now() + delay >= self.connected_by
                && self.connected_by < self.at
            {
                return Err(failure.into());
            }
            if delay >= self.remaining() {
                let retry_after = retry_after.filter(|after| *after >= self.remaining());
                let (elapsed, last) = (start.elapsed(), Box::new(failure));
                return Err(RetryError::Exhausted { attempts, elapsed, retry_after, last });
            }
            tracing::warn!("{}; retrying in {:.1} s", error_causes::describe(&failure), delay.as_secs_f32());
            last = Some(Box::new(failure));
            sleep(delay).await;
        }
        let elapsed = start.elapsed();
        Err(match last {
            Some(last) => RetryError::Exhausted { attempts, elapsed, retry_after: None, last },
            None => RetryError::TimedOut { operation: operation.to_owned(), elapsed },
        })
    }

    /// Runs an operation for each item concurrently, and retries transient failures. `describe` describes it in errors.
    /// The results have the order of the items, and so do the first attempts.
    pub async fn retry_each<T, R, E: Retryable + 'static>(
        self,
        items: impl IntoIterator<Item = T>,
        describe: impl Fn(&T) -> String,
        attempt: impl AsyncFn(&T) -> Result<R, E>,
    ) -> Vec<(T, Result<R, RetryError<E>>)> {
        let items: Vec<T> = items.into_iter().collect();
        // Others wait for the permits of attempts that hang, so each round of attempts has a share of the time.
        let rounds = u32::try_from(items.len().div_ceil(MAX_CONCURRENT)).unwrap_or(u32::MAX);
        let permits = Semaphore::new(MAX_CONCURRENT);
        let retry = async |item: T| {
            let attempt = async || {
                let _permit = permits.acquire().await;
                timeout(self.remaining() / rounds, attempt(&item)).await.ok()
            };
            let result = self.retry_cut(&describe(&item), attempt).await;
            (item, result)
        };
        join_all(items.into_iter().map(retry)).await
    }
}

fn no_time_left(retry_after: Option<Duration>) -> String {
    match retry_after {
        None => "--timeout leaves no time for another".to_owned(),
        Some(after) => {
            format!("the server asks for a retry after {} s, later than --timeout", after.as_secs())
        }
    }
}

/// A random seed, so that agents that start or fail together do not retry in step.
#[must_use]
pub fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{}", if self.transient { "busy" } else { "forbidden" })]
    struct Fake {
        transient: bool,
        retry_after: Option<&'static str>,
    }

    impl Retryable for Fake {
        fn is_transient(&self) -> bool {
            self.transient
        }

        fn retry_after(&self) -> Option<&str> {
            self.retry_after
        }
    }

    const BUSY: Fake = Fake { transient: true, retry_after: None };

    type Results = Vec<Result<(), RetryError<Fake>>>;

    /// Retries with delays of 10 to 100 ms. `attempt` gets the number of the task and of its earlier attempts.
    fn run(
        within: Duration,
        tasks: usize,
        attempt: impl AsyncFn(usize, usize) -> Result<(), Fake>,
    ) -> (Results, Vec<usize>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (first, most) = (Duration::from_millis(10), Duration::from_millis(100));
            let deadline =
                Deadline::after(within, Backoff { initial: first, max: most, ..Backoff::default() });
            let attempts: Vec<_> = (0..tasks).map(|_| Cell::new(0)).collect();
            let attempt_one = async |task: &usize| {
                let before = attempts[*task].replace(attempts[*task].get() + 1);
                attempt(*task, before).await
            };
            let results = deadline.retry_each(0..tasks, |n| format!("task {n}"), attempt_one).await;
            assert!(results.iter().map(|(task, _)| *task).eq(0..tasks), "in their order");
            let results = results.into_iter().map(|(_, result)| result).collect();
            (results, attempts.into_iter().map(Cell::into_inner).collect())
        })
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn transient_failure_is_retried_and_permanent_failure_is_not() {
        let (results, attempts) =
            run(MINUTE, 1, async |_, before| if before < 2 { Err(BUSY) } else { Ok(()) });
        assert!(results[0].is_ok());
        assert_eq!(attempts, [3]);

        let (results, attempts) = run(MINUTE, 1, async |_, _| Err(Fake { transient: false, ..BUSY }));
        assert!(matches!(results[0], Err(RetryError::Permanent(_))));
        assert_eq!(attempts, [1]);
    }

    #[test]
    fn deadline_ends_a_hanging_attempt_repeated_failures_and_a_long_retry_after() {
        let (results, _) = run(Duration::from_millis(100), 1, async |_, _| std::future::pending().await);
        let error = results[0].as_ref().unwrap_err().to_string();
        assert!(error.starts_with("task 0 timed out after "), "{error}");

        let (results, _) = run(Duration::from_millis(500), 1, async |_, _| Err(BUSY));
        assert!(matches!(results[0], Err(RetryError::Exhausted { attempts: 2.., .. })), "{results:?}");

        let (results, _) = run(MINUTE, 1, async |_, _| Err(Fake { retry_after: Some("3600"), ..BUSY }));
        assert!(matches!(results[0], Err(RetryError::Exhausted { attempts: 1, .. })));
    }

    #[test]
    fn next_attempt_waits_for_retry_after() {
        let start = std::time::Instant::now();
        let after = |before| if before == 0 { Err(Fake { retry_after: Some("1"), ..BUSY }) } else { Ok(()) };
        let (results, _) = run(MINUTE, 1, async |_, before| after(before));
        assert!(results[0].is_ok());
        assert!(start.elapsed() >= Duration::from_secs(1));
    }

    #[test]
    fn hanging_attempts_do_not_delay_the_others() {
        let (results, _) = run(Duration::from_millis(500), 50, async |task, _| {
            if task % 7 == 0 && task < 49 { std::future::pending().await } else { Ok(()) }
        });
        assert!(
            results.iter().enumerate().all(|(task, result)| result.is_ok() != (task % 7 == 0 && task < 49))
        );
    }

    #[test]
    fn more_hanging_attempts_than_permits_do_not_starve_the_others() {
        let (results, _) =
            run(
                Duration::from_secs(2),
                20,
                async |task, _| {
                    if task < 12 { std::future::pending().await } else { Ok(()) }
                },
            );
        assert!(
            results.iter().enumerate().all(|(task, result)| result.is_ok() == (task >= 12)),
            "{results:?}"
        );
    }

    #[test]
    fn last_failure_is_kept_if_the_next_attempt_hangs() {
        let (results, attempts) = run(Duration::from_millis(500), 1, async |_, before| {
            if before == 0 { Err(BUSY) } else { std::future::pending().await }
        });
        assert_eq!(attempts, [2]);
        let Err(RetryError::Exhausted { attempts: 2, last, .. }) = &results[0] else { panic!("{results:?}") };
        assert!(last.transient);
    }

    #[test]
    fn one_failure_among_many_tasks_is_retried() {
        let (results, _) =
            run(MINUTE, 50, async |task, before| if task == 0 && before == 0 { Err(BUSY) } else { Ok(()) });
        assert!(results.iter().all(Result::is_ok));
    }
}
