//! Trying again until a deadline: for the one shot, which has no later report to hope for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until, timeout};

use crate::domain::retry::{self, Backoff, Retryable};
use crate::process::error_causes;

/// Something was tried, and tried again where that made sense, in vain.
#[derive(Debug, thiserror::Error)]
pub enum GaveUp<E: Retryable + 'static> {
    /// The failure is one that does not mend itself.
    #[error(transparent)]
    Failed(Box<E>),
    /// A next try would come too late.
    #[error("gave up after {} in {:.1} s: {}", times(*.tries), spent.as_secs_f32(), no_time(*.asked))]
    Exhausted {
        /// How often it was tried.
        tries: u32,
        /// How long that took.
        spent: Duration,
        /// After how long the last answer wants to be asked again, where that is too late.
        asked: Option<Duration>,
        /// The last failure.
        #[source]
        last: Box<E>,
    },
    /// No try came to an end.
    #[error("{asking} was not done in {:.1} s, and --timeout leaves no time for another try", spent.as_secs_f32())]
    Late {
        /// What was asked.
        asking: String,
        /// How long that took.
        spent: Duration,
    },
}

impl<E: Retryable + 'static> GaveUp<E> {
    /// The last failure, where a try came to its end.
    #[must_use]
    pub fn last(&self) -> Option<&E> {
        match self {
            Self::Failed(last) | Self::Exhausted { last, .. } => Some(last),
            Self::Late { .. } => None,
        }
    }
}

/// How long, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    backoff: Backoff,
}

/// One of several things that are tried, and how that goes.
struct Task<T, E, D> {
    number: usize,
    what: T,
    delays: D,
    tries: u32,
    not_before: Instant,
    last: Option<Box<E>>,
}

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(within: Duration, backoff: Backoff) -> Self {
        Self { at: Instant::now() + within, backoff }
    }

    /// How long is left.
    #[must_use]
    pub fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Half of what is left.
    pub(super) fn half(self) -> Self {
        Self { at: Instant::now() + self.left() / 2, ..self }
    }

    /// Tries one thing, and again if it failed in a way that may pass; `asking` says what it is.
    ///
    /// # Errors
    ///
    /// [`GaveUp`] where it failed for good, or no time is left.
    pub async fn persist_in<R, E: Retryable + 'static>(
        self,
        asking: &str,
        mut attempt: impl AsyncFnMut() -> Result<R, E>,
    ) -> Result<R, GaveUp<E>> {
        let start = Instant::now();
        let tried = self.persist([()], |()| asking.to_owned(), async |()| attempt().await).await;
        let late = || Err(GaveUp::Late { asking: asking.to_owned(), spent: start.elapsed() });
        tried.into_iter().next().map_or_else(late, |((), result)| result)
    }

    /// Tries each of several things, and again those that failed in a way that may pass. `asking` says
    /// in words what is tried. While several wait, none takes more than its share of the time that is
    /// left, so that one that hangs leaves the others theirs; the last one has all of it.
    pub(super) async fn persist<T, R, E: Retryable + 'static>(
        self,
        tasks: impl IntoIterator<Item = T>,
        asking: impl Fn(&T) -> String,
        mut attempt: impl AsyncFnMut(&T) -> Result<R, E>,
    ) -> Vec<(T, Result<R, GaveUp<E>>)> {
        let start = Instant::now();
        let mut waiting: Vec<_> = tasks
            .into_iter()
            .enumerate()
            .map(|(number, what)| {
                let delays = self.backoff.delays(seed());
                Task { number, what, delays, tries: 0, not_before: start, last: None }
            })
            .collect();
        let mut done = Vec::new();
        while let Some(next) = (0..waiting.len()).min_by_key(|&n| waiting.get(n).map(|task| task.not_before))
        {
            let mut task = waiting.remove(next);
            sleep_until(task.not_before).await;
            let share = self.left() / u32::try_from(waiting.len() + 1).unwrap_or(u32::MAX);
            task.tries += 1;
            let mut asked = None;
            let mut delay = task.delays.next().unwrap_or(self.backoff.most);
            match timeout(share, attempt(&task.what)).await {
                Ok(Ok(result)) => {
                    done.push((task.number, task.what, Ok(result)));
                    continue;
                }
                Ok(Err(failure)) if !failure.is_transient() => {
                    done.push((task.number, task.what, Err(GaveUp::Failed(Box::new(failure)))));
                    continue;
                }
                Ok(Err(failure)) => {
                    asked = failure.retry_after().and_then(|v| retry::retry_after(v, SystemTime::now()));
                    delay = self.backoff.at_least(delay, asked);
                    task.last = Some(Box::new(failure));
                }
                Err(_) => {}
            }
            if delay < self.left() {
                let why = match &task.last {
                    Some(failure) => error_causes::said_once(&**failure).join(": "),
                    None => format!("{} takes longer than its share of the time", asking(&task.what)),
                };
                tracing::warn!("{why}; trying again in {:.1} s", delay.as_secs_f32());
                task.not_before = Instant::now() + delay;
                waiting.push(task);
            } else {
                let spent = start.elapsed();
                let gave_up = match task.last {
                    Some(last) => {
                        let asked = asked.filter(|asked| *asked >= self.left());
                        GaveUp::Exhausted { tries: task.tries, spent, asked, last }
                    }
                    None => GaveUp::Late { asking: asking(&task.what), spent },
                };
                done.push((task.number, task.what, Err(gave_up)));
            }
        }
        done.sort_by_key(|(number, ..)| *number);
        done.into_iter().map(|(_, what, result)| (what, result)).collect()
    }
}

fn times(n: u32) -> String {
    if n == 1 { "1 try".to_owned() } else { format!("{n} tries") }
}

fn no_time(asked: Option<Duration>) -> String {
    match asked {
        None => "--timeout leaves no time for another".to_owned(),
        Some(asked) => {
            format!("it is to be asked again in {} s, and --timeout ends before that", asked.as_secs())
        }
    }
}

/// A different one each time, so that many that failed or started together do not keep in step.
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

    type Results = Vec<Result<(), GaveUp<Fake>>>;

    /// Runs the attempts with delays of 10 to 100 ms between them. An attempt gets the number of the task and of its
    /// earlier tries.
    fn run(
        within: Duration,
        tasks: usize,
        mut attempt: impl AsyncFnMut(usize, usize) -> Result<(), Fake>,
    ) -> (Results, Vec<usize>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (first, most) = (Duration::from_millis(10), Duration::from_millis(100));
            let deadline = Deadline::after(within, Backoff { first, most, ..Backoff::default() });
            let mut tries = vec![0; tasks];
            let attempt_one = async |task: &usize| {
                tries[*task] += 1;
                attempt(*task, tries[*task] - 1).await
            };
            let results = deadline.persist(0..tasks, |n| format!("task {n}"), attempt_one).await;
            assert!(results.iter().map(|(task, _)| *task).eq(0..tasks), "in their order");
            (results.into_iter().map(|(_, result)| result).collect(), tries)
        })
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn transient_failure_is_retried_and_permanent_failure_is_not() {
        let (results, tries) = run(MINUTE, 1, async |_, before| if before < 2 { Err(BUSY) } else { Ok(()) });
        assert!(results[0].is_ok());
        assert_eq!(tries, [3]);

        let (results, tries) = run(MINUTE, 1, async |_, _| Err(Fake { transient: false, ..BUSY }));
        assert!(matches!(results[0], Err(GaveUp::Failed(_))));
        assert_eq!(tries, [1]);
    }

    #[test]
    fn deadline_ends_a_hanging_try_repeated_failures_and_a_long_retry_after() {
        let (results, _) = run(Duration::from_millis(100), 1, async |_, _| std::future::pending().await);
        let error = results[0].as_ref().unwrap_err().to_string();
        assert!(error.starts_with("task 0 was not done in "), "{error}");

        let (results, _) = run(Duration::from_millis(500), 1, async |_, _| Err(BUSY));
        assert!(matches!(results[0], Err(GaveUp::Exhausted { tries: 2.., .. })), "{results:?}");

        let (results, _) = run(MINUTE, 1, async |_, _| Err(Fake { retry_after: Some("3600"), ..BUSY }));
        assert!(matches!(results[0], Err(GaveUp::Exhausted { tries: 1, .. })));
    }

    #[test]
    fn next_try_waits_for_retry_after() {
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
