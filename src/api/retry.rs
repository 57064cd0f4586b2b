//! Retries with backoff until a deadline.
//!
//! Used by single runs and commands, also for requests to the cluster; the daemon retries by its cadence instead.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until, timeout};

use crate::domain::model::pluralize;
use crate::domain::retry::{self, Backoff, Retryable};
use crate::process::error_causes;

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
    backoff: Backoff,
}

/// One of several operations that are retried.
struct Task<T, E, D> {
    number: usize,
    item: T,
    delays: D,
    attempts: u32,
    not_before: Instant,
    last: Option<Box<E>>,
}

impl Deadline {
    /// A deadline after this duration from now.
    #[must_use]
    pub fn after(within: Duration, backoff: Backoff) -> Self {
        Self { at: Instant::now() + within, backoff }
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

    /// Runs one operation and retries transient failures. `operation` describes it in errors.
    ///
    /// # Errors
    ///
    /// [`RetryError`] after a permanent failure, or at the deadline.
    pub async fn retry<R, E: Retryable + 'static>(
        self,
        operation: &str,
        mut attempt: impl AsyncFnMut() -> Result<R, E>,
    ) -> Result<R, RetryError<E>> {
        let start = Instant::now();
        let results = self.retry_each([()], |()| operation.to_owned(), async |()| attempt().await).await;
        let timed_out =
            || Err(RetryError::TimedOut { operation: operation.to_owned(), elapsed: start.elapsed() });
        results.into_iter().next().map_or_else(timed_out, |((), result)| result)
    }

    /// Runs one operation per item and retries transient failures. `describe` describes it in errors.
    /// Each attempt gets an equal share of the remaining time, so that one that hangs cannot starve the
    /// others; the last waiting operation gets all of it.
    pub async fn retry_each<T, R, E: Retryable + 'static>(
        self,
        items: impl IntoIterator<Item = T>,
        describe: impl Fn(&T) -> String,
        mut attempt: impl AsyncFnMut(&T) -> Result<R, E>,
    ) -> Vec<(T, Result<R, RetryError<E>>)> {
        let start = Instant::now();
        let mut waiting: Vec<_> = items
            .into_iter()
            .enumerate()
            .map(|(number, item)| {
                let delays = self.backoff.delays(seed());
                Task { number, item, delays, attempts: 0, not_before: start, last: None }
            })
            .collect();
        let mut done = Vec::new();
        while let Some(next) = (0..waiting.len()).min_by_key(|&n| waiting.get(n).map(|task| task.not_before))
        {
            let mut task = waiting.remove(next);
            sleep_until(task.not_before).await;
            let share = self.remaining() / u32::try_from(waiting.len() + 1).unwrap_or(u32::MAX);
            task.attempts += 1;
            let mut retry_after = None;
            let mut delay = task.delays.next().unwrap_or(self.backoff.max);
            match timeout(share, attempt(&task.item)).await {
                Ok(Ok(result)) => {
                    done.push((task.number, task.item, Ok(result)));
                    continue;
                }
                Ok(Err(failure)) if !failure.is_transient() => {
                    done.push((task.number, task.item, Err(RetryError::Permanent(Box::new(failure)))));
                    continue;
                }
                Ok(Err(failure)) => {
                    retry_after =
                        failure.retry_after().and_then(|v| retry::retry_after(v, SystemTime::now()));
                    delay = self.backoff.with_retry_after(delay, retry_after);
                    task.last = Some(Box::new(failure));
                }
                Err(_) => {}
            }
            if delay < self.remaining() {
                let cause = match &task.last {
                    Some(failure) => error_causes::describe(&**failure),
                    None => format!("{} timed out after {:.1} s", describe(&task.item), share.as_secs_f32()),
                };
                tracing::warn!("{cause}; retrying in {:.1} s", delay.as_secs_f32());
                task.not_before = Instant::now() + delay;
                waiting.push(task);
            } else {
                let elapsed = start.elapsed();
                let error = match task.last {
                    Some(last) => {
                        let retry_after = retry_after.filter(|after| *after >= self.remaining());
                        RetryError::Exhausted { attempts: task.attempts, elapsed, retry_after, last }
                    }
                    None => RetryError::TimedOut { operation: describe(&task.item), elapsed },
                };
                done.push((task.number, task.item, Err(error)));
            }
        }
        done.sort_by_key(|(number, ..)| *number);
        done.into_iter().map(|(_, item, result)| (item, result)).collect()
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
        mut attempt: impl AsyncFnMut(usize, usize) -> Result<(), Fake>,
    ) -> (Results, Vec<usize>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (first, most) = (Duration::from_millis(10), Duration::from_millis(100));
            let deadline =
                Deadline::after(within, Backoff { initial: first, max: most, ..Backoff::default() });
            let mut attempts = vec![0; tasks];
            let attempt_one = async |task: &usize| {
                attempts[*task] += 1;
                attempt(*task, attempts[*task] - 1).await
            };
            let results = deadline.retry_each(0..tasks, |n| format!("task {n}"), attempt_one).await;
            assert!(results.iter().map(|(task, _)| *task).eq(0..tasks), "in their order");
            (results.into_iter().map(|(_, result)| result).collect(), attempts)
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
    fn hanging_task_leaves_the_others_their_share_and_gets_what_they_leave() {
        let (results, _) = run(Duration::from_millis(500), 50, async |task, _| {
            if task == 7 { std::future::pending().await } else { Ok(()) }
        });
        assert!(results.iter().enumerate().all(|(task, result)| result.is_ok() != (task == 7)));

        // Slower than its share of the first round, 200 ms, but faster than the time that is left.
        let (results, _) = run(Duration::from_secs(10), 50, async |task, _| {
            tokio::time::sleep(Duration::from_millis(if task == 7 { 400 } else { 0 })).await;
            Ok(())
        });
        assert!(results.iter().all(Result::is_ok));
    }

    #[test]
    fn one_failure_among_many_tasks_is_retried_however_small_its_share() {
        let (results, _) =
            run(MINUTE, 50, async |task, before| if task == 0 && before == 0 { Err(BUSY) } else { Ok(()) });
        assert!(results.iter().all(Result::is_ok));
    }
}
