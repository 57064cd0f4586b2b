//! Request bodies, with limits on size, speed and memory.
//!
//! Operations read every body through [`Paced`] and hold a [`Share`] of the memory until its contents are recorded.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::problem::Problem;
use crate::limits::keyed_semaphore::KeyedSemaphore;
use model::{Fingerprint, FingerprintHasher};

/// The minimum speed of a body.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Time before the speed counts.
    pub grace: Duration,
    /// Minimum speed after that.
    pub bytes_per_second: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { grace: Duration::from_secs(10), bytes_per_second: 16 * 1024 }
    }
}

/// Memory for all request bodies, or for all responses, in KiB. A request body holds its share until its contents are
/// recorded, a response until the client has read it. One organization gets at most half, so that slow or large transfers
/// of one do not block the others.
#[derive(Debug)]
pub(crate) struct Budget {
    total: Arc<Semaphore>,
    organizations: KeyedSemaphore,
}

/// The part of the budget that one body uses, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    /// The organization's budget, and the total.
    budgets: [Arc<Semaphore>; 2],
    /// Maximum for an organization, in bytes.
    max: usize,
    held: [Option<OwnedSemaphorePermit>; 2],
    bytes: usize,
}

/// Timeout of a body or response that waits for memory.
pub(crate) const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);

/// Granularity of shares, in KiB.
const STEP: u32 = 64;

/// Maximum allocation before a body arrives, in bytes.
const MAX_PREALLOCATED_BYTES: usize = 1024 * 1024;

impl Budget {
    pub(crate) fn new(kibibytes: u32) -> Self {
        let total = Arc::new(Semaphore::new(kibibytes as usize));
        Self { total, organizations: KeyedSemaphore::new(half(kibibytes)) }
    }

    /// The maximum for one organization, in bytes, of a budget in KiB.
    pub(crate) fn max_per_organization(kibibytes: u32) -> u64 {
        u64::from(half(kibibytes)) * 1024
    }

    /// An empty share of an organization; `""` for requests without one. A body that is only announced uses no memory.
    pub(crate) fn share(&self, organization: &str) -> Share {
        let budgets = [self.organizations.get(organization), Arc::clone(&self.total)];
        Share { budgets, max: self.organizations.each as usize * 1024, held: [None, None], bytes: 0 }
    }
}

/// Half of the budget, rounded down to a multiple of `STEP`.
fn half(kibibytes: u32) -> u32 {
    kibibytes / 2 / STEP * STEP
}

impl Share {
    /// Grows to at least `bytes`, the memory that the parsed body needs. Returns 413 if an organization cannot have it.
    pub(crate) async fn grow_to(&mut self, what: &str, bytes: usize) -> Result<(), Problem> {
        if bytes > self.max {
            return Err(Problem::too_much(what, bytes, self.max));
        }
        self.grow(bytes.saturating_sub(self.bytes)).await
    }

    /// Grows by this many bytes. Returns 503 if the memory does not become free in time.
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
            let Ok(Ok(more)) = timeout(MEMORY_TIMEOUT, more).await else {
                return Err(Problem::unavailable("too many request bodies are being received; retry later"));
            };
            match held {
                Some(held) => held.merge(more),
                None => *held = Some(more),
            }
        }
        Ok(())
    }
}

pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub(crate) hash: Fingerprint,
    /// The memory of the body, to be held until its contents are recorded.
    pub(crate) share: Share,
}

/// A body that is being received; it fails when it is slower than its [`Pace`].
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
                    // Trailers are ignored.
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.received += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
            }
        }
    }

    /// The whole body, up to `max` bytes. Each chunk is hashed on arrival, while it is in the CPU cache.
    pub(crate) async fn read(
        mut self,
        what: &str,
        max: u64,
        expected: u64,
        mut share: Share,
    ) -> Result<Received, Problem> {
        // The rest of a longer announced length is not allocated before the bytes arrive.
        let capacity = usize::try_from(expected.min(max)).unwrap_or_default().min(MAX_PREALLOCATED_BYTES);
        let mut bytes = Vec::with_capacity(capacity);
        let mut hash = FingerprintHasher::default();
        while let Some(chunk) = self.next().await? {
            if bytes.len() as u64 + chunk.len() as u64 > max {
                return Err(Problem::too_large(what, max));
            }
            share.grow(chunk.len()).await?;
            hash.update(&chunk);
            bytes.extend_from_slice(&chunk);
        }
        Ok(Received { bytes, hash: hash.finish(), share })
    }
}

/// The announced length of a body. Returns 413 without reading the body if it is over the limit.
pub(crate) fn content_length(headers: &HeaderMap, what: &str, max: u64) -> Result<Option<u64>, Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max) {
        return Err(Problem::too_large(what, max));
    }
    Ok(length)
}
