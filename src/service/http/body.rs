//! Reading bodies: no larger, no slower and no more at once than the service can bear.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::problem::Problem;
use crate::domain::model::{Fingerprint, Fingerprinting};
use crate::service::limits::keyed_semaphore::Places;

/// How slow a body may come.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How long it has before its pace counts.
    pub grace: Duration,
    /// How many bytes it has to bring in each second after that.
    pub bytes_per_second: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { grace: Duration::from_secs(10), bytes_per_second: 16 * 1024 }
    }
}

/// The memory that all bodies together may take, in KiB: while they are received and until what they say is recorded, or,
/// for answers, until their clients have them. Those of one organization take half of it at most: whoever sends or reads
/// slowly, or much, leaves the rest to others.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Arc<Semaphore>,
    of: Places<String>,
}

/// The part of the budget that one body takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    /// The organization's, and that of all.
    budgets: [Arc<Semaphore>; 2],
    /// What an organization may have, in bytes.
    most: usize,
    held: [Option<OwnedSemaphorePermit>; 2],
    bytes: usize,
}

/// How long a body waits for more of the budget.
const WAIT: Duration = Duration::from_secs(5);

/// By how much a share grows, in KiB.
const STEP: u32 = 64;

impl Budget {
    pub(crate) fn new(kibibytes: u32) -> Self {
        Self { all: Arc::new(Semaphore::new(kibibytes as usize)), of: Places::new(half(kibibytes)) }
    }

    /// How many bytes those of one organization may take, where all may take so many KiB.
    pub(crate) fn of_one(kibibytes: u32) -> u64 {
        u64::from(half(kibibytes)) * 1024
    }

    /// A share of nothing yet: who only announces a body takes nothing from others. It is an organization's, or
    /// nobody's (`""`).
    pub(crate) fn share(&self, organization: &str) -> Share {
        let budgets = [self.of.of(organization.to_owned()), Arc::clone(&self.all)];
        Share { budgets, most: self.of.each as usize * 1024, held: [None, None], bytes: 0 }
    }
}

/// Half of it, in steps: what is exactly as large has a share of its size.
fn half(kibibytes: u32) -> u32 {
    kibibytes / 2 / STEP * STEP
}

impl Share {
    /// Becomes what was read of the body, which is not held any longer; one that takes more than an organization may
    /// have is refused at once.
    pub(crate) async fn become_at_least(&mut self, what: &str, bytes: usize) -> Result<(), Problem> {
        if bytes > self.most {
            return Err(Problem::too_much(what, bytes, self.most));
        }
        self.grow(bytes.saturating_sub(self.bytes)).await
    }

    /// Grows by so many bytes.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes += bytes;
        let step = STEP as usize;
        let wanted = self.bytes.div_ceil(step * 1024) * step;
        for (budget, held) in self.budgets.iter().zip(&mut self.held) {
            let missing = wanted.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
            if missing == 0 {
                continue;
            }
            let more = Arc::clone(budget).acquire_many_owned(u32::try_from(missing).unwrap_or(u32::MAX));
            let Ok(Ok(more)) = timeout(WAIT, more).await else {
                return Err(Problem::unavailable("too much is being received at once"));
            };
            match held {
                Some(held) => held.merge(more),
                None => *held = Some(more),
            }
        }
        Ok(())
    }
}

/// A body that was received.
pub(crate) struct Received {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// Their hash.
    pub(crate) hash: Fingerprint,
    /// What they take of the budget, until what they say is recorded.
    pub(crate) share: Share,
}

/// A body as it comes in, which fails when it falls behind its pace.
pub(crate) struct Paced {
    body: Body,
    pace: Pace,
    start: Instant,
    received: u64,
}

impl Paced {
    pub(crate) fn new(body: Body, pace: Pace) -> Self {
        Self { body, pace, start: Instant::now(), received: 0 }
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            #[expect(clippy::cast_precision_loss, reason = "a fraction of a second does not matter")]
            let earned = self.received as f64 / f64::from(self.pace.bytes_per_second);
            let deadline = self.start + self.pace.grace + Duration::from_secs_f64(earned);
            let frame = timeout_at(deadline, self.body.frame()).await.map_err(|_| Problem::too_slow())?;
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(Problem::broken_off()),
                Some(Ok(frame)) => {
                    // Trailers say nothing to us.
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.received += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
            }
        }
    }

    /// All of it, up to a limit that is kept while reading. Each part is hashed as it comes, while it is
    /// still in the processor's cache.
    pub(crate) async fn read(
        mut self,
        what: &str,
        most: u64,
        expected: u64,
        mut share: Share,
    ) -> Result<Received, Problem> {
        // What is only announced is not allocated at once.
        let capacity = usize::try_from(expected.min(most)).unwrap_or_default().min(LARGEST_GUESS);
        let mut bytes = Vec::with_capacity(capacity);
        let mut hash = Fingerprinting::default();
        while let Some(chunk) = self.next().await? {
            if bytes.len() as u64 + chunk.len() as u64 > most {
                return Err(Problem::too_large(what, most));
            }
            share.grow(chunk.len()).await?;
            hash.update(&chunk);
            bytes.extend_from_slice(&chunk);
        }
        Ok(Received { bytes, hash: hash.finish(), share })
    }
}

/// How much is allocated for a body before it comes, in bytes.
const LARGEST_GUESS: usize = 1024 * 1024;

/// The length that a request announces; one that is over the limit is refused unread.
pub(crate) fn announced(headers: &HeaderMap, what: &str, most: u64) -> Result<Option<u64>, Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most) {
        return Err(Problem::too_large(what, most));
    }
    Ok(length)
}
