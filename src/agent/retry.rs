//! Trying again until a deadline: for the one shot, which has no later report to hope for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, timeout_at};

use crate::domain::outcome::{self, Backoff, Failure};
use crate::process::causes;

/// Something was tried, and tried again where that made sense, in vain.
#[derive(Debug, thiserror::Error)]
pub enum GaveUp<E: Failure + 'static> {
    /// The failure is one that does not mend itself.
    #[error(transparent)]
    Failed(Box<E>),
    /// The time was up.
    #[error("gave up after {tries} and {within:?} (--timeout)", tries = times(*.tries))]
    TimedOut {
        /// How often it was tried.
        tries: u32,
        /// How long was allowed.
        within: Duration,
        /// The last failure, where a try came to its end.
        #[source]
        last: Option<Box<E>>,
    },
}

impl<E: Failure + 'static> GaveUp<E> {
    /// The last failure, where a try came to its end.
    #[must_use]
    pub fn last(&self) -> Option<&E> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::TimedOut { last, .. } => last.as_deref(),
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

    /// Tries, and tries again after transient failures, each of which is logged as `what`.
    pub(super) async fn persist<T, E: Failure + 'static>(
        self,
        what: &str,
        mut attempt: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, GaveUp<E>> {
        let mut last = None;
        for (tries, delay) in (1..).zip(self.backoff.delays(seed())) {
            let failure = match timeout_at(self.at, attempt()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) if !failure.is_transient() => return Err(GaveUp::Failed(Box::new(failure))),
                Ok(Err(failure)) => Box::new(failure),
                Err(_) => return Err(GaveUp::TimedOut { tries, within: self.within, last }),
            };
            let asked = failure.retry_after().and_then(|v| outcome::retry_after(v, SystemTime::now()));
            let delay = self.backoff.at_least(delay, asked);
            if Instant::now() + delay >= self.at {
                return Err(GaveUp::TimedOut { tries, within: self.within, last: Some(failure) });
            }
            tracing::warn!(
                "{what}: {}; trying again in {:.1} s",
                causes::said_once(&*failure).join(": "),
                delay.as_secs_f32()
            );
            last = Some(failure);
            sleep(delay).await;
        }
        Err(GaveUp::TimedOut { tries: 0, within: self.within, last })
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

    impl Failure for Fake {
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
        assert!(matches!(result, Err(GaveUp::TimedOut { tries: 1, last: None, .. })));
        assert_eq!(took, Duration::from_secs(10));

        let (result, took) = run(60, async || Err::<(), _>(BUSY));
        let error = result.unwrap_err();
        assert!(error.to_string().contains("tries and 60s (--timeout)"), "{error}");
        assert!(took <= Duration::from_mins(1));

        let (result, took) = run(60, async || Err::<(), _>(Fake { retry_after: Some("3600"), ..BUSY }));
        assert!(matches!(result, Err(GaveUp::TimedOut { tries: 1, last: Some(_), .. })));
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
