//! Trying again until a deadline: for the one shot, which has no later report to hope for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, timeout_at};

use crate::domain::outcome::{self, Backoff, Retryable};
use crate::process::causes;

/// Something was tried, and tried again where that made sense, in vain.
#[derive(Debug, thiserror::Error)]
pub enum GaveUp<E: Retryable + 'static> {
    /// The failure is one that does not mend itself.
    #[error(transparent)]
    Failed(Box<E>),
    /// The next try would have begun too late.
    #[error(
        "gave up after {} in {:.1} s: the next would come too late for {:.1} s of --timeout",
        times(*.tries), spent.as_secs_f32(), within.as_secs_f32()
    )]
    Exhausted {
        /// How often it was tried.
        tries: u32,
        /// How long that took.
        spent: Duration,
        /// How long was allowed.
        within: Duration,
        /// The last failure.
        #[source]
        last: Box<E>,
    },
    /// The time was up in the middle of a try.
    #[error("{asking} was not done within {:.1} s of --timeout", within.as_secs_f32())]
    Late {
        /// What was asked.
        asking: String,
        /// How long was allowed.
        within: Duration,
        /// The failure of the try before.
        #[source]
        before: Option<Box<E>>,
    },
}

impl<E: Retryable + 'static> GaveUp<E> {
    /// The last failure, where a try came to its end.
    #[must_use]
    pub fn last(&self) -> Option<&E> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Exhausted { last, .. } => Some(last),
            Self::Late { before, .. } => before.as_deref(),
        }
    }
}

/// How long, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    within: Duration,
    backoff: Backoff,
}

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(within: Duration, backoff: Backoff) -> Self {
        Self { at: Instant::now() + within, within, backoff }
    }

    /// How long is left.
    #[must_use]
    pub fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// How long was allowed.
    #[must_use]
    pub fn within(self) -> Duration {
        self.within
    }

    /// An equal share of what is left for one of so many, so that one that hangs leaves the others
    /// theirs.
    pub(super) fn share(self, of: usize) -> Self {
        let within = self.left() / u32::try_from(of.max(1)).unwrap_or(u32::MAX);
        Self { at: Instant::now() + within, within, ..self }
    }

    /// Tries, and tries again after transient failures, each of which is logged. `asking` is the
    /// request in words.
    pub(super) async fn persist<T, E: Retryable + 'static>(
        self,
        asking: &str,
        mut attempt: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, GaveUp<E>> {
        let start = Instant::now();
        let mut before = None;
        let mut delays = self.backoff.delays(seed());
        for tries in 1.. {
            let failure = match timeout_at(self.at, attempt()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) if !failure.is_transient() => return Err(GaveUp::Failed(Box::new(failure))),
                Ok(Err(failure)) => Box::new(failure),
                Err(_) => break,
            };
            let asked = failure.retry_after().and_then(|v| outcome::retry_after(v, SystemTime::now()));
            let delay = self.backoff.at_least(delays.next().unwrap_or(self.backoff.most), asked);
            if delay >= self.left() {
                return Err(GaveUp::Exhausted {
                    tries,
                    spent: start.elapsed(),
                    within: self.within,
                    last: failure,
                });
            }
            tracing::warn!(
                "{}; trying again in {:.1} s",
                causes::said_once(&*failure).join(": "),
                delay.as_secs_f32()
            );
            before = Some(failure);
            sleep(delay).await;
        }
        Err(self.late(asking, before))
    }

    fn late<E: Retryable + 'static>(self, asking: &str, before: Option<Box<E>>) -> GaveUp<E> {
        GaveUp::Late { asking: asking.to_owned(), within: self.within, before }
    }
}

fn times(n: u32) -> String {
    if n == 1 { "1 try".to_owned() } else { format!("{n} tries") }
}

/// A different one each time, so that many one shots that failed together do not try again together.
fn seed() -> u64 {
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

    /// Runs on paused time: no socket exists here.
    fn run<T>(
        within: u64,
        attempt: impl AsyncFnMut() -> Result<T, Fake>,
    ) -> (Result<T, GaveUp<Fake>>, Duration) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let deadline = Deadline::after(Duration::from_secs(within), Backoff::default());
            let result = deadline.persist("it", attempt).await;
            (result, start.elapsed())
        })
    }

    #[test]
    fn a_transient_failure_is_tried_again_and_another_is_not() {
        let mut left = 3;
        let (result, took) = run(60, async || {
            left -= 1;
            if left > 0 { Err(BUSY) } else { Ok("done") }
        });
        assert_eq!(result.unwrap(), "done");
        assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(7), "{took:?}");

        let (result, took) = run(60, async || Err::<(), _>(Fake { transient: false, ..BUSY }));
        assert!(matches!(result, Err(GaveUp::Failed(_))));
        assert_eq!(took, Duration::ZERO);
    }

    #[test]
    fn the_deadline_holds_whatever_a_try_or_a_retry_after_takes() {
        let (result, took) = run(10, std::future::pending::<Result<(), Fake>>);
        assert!(matches!(result, Err(GaveUp::Late { before: None, .. })));
        assert_eq!(took, Duration::from_secs(10));

        let (result, took) = run(60, async || Err::<(), _>(BUSY));
        let error = result.unwrap_err();
        assert!(error.to_string().contains("too late for 60.0 s of --timeout"), "{error}");
        assert!(took <= Duration::from_mins(1));

        let (result, took) = run(60, async || Err::<(), _>(Fake { retry_after: Some("3600"), ..BUSY }));
        assert!(matches!(result, Err(GaveUp::Exhausted { tries: 1, .. })));
        assert_eq!(took, Duration::ZERO);
    }

    #[test]
    fn a_retry_after_is_honoured() {
        let mut tries = 0;
        let (result, took) = run(60, async || {
            tries += 1;
            if tries == 1 { Err(Fake { retry_after: Some("20"), ..BUSY }) } else { Ok(()) }
        });
        assert!(result.is_ok());
        assert_eq!(took, Duration::from_secs(20));
    }
}
