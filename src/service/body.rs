//! Reading bodies: no larger, no slower and no more at once than the service can bear.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::problem::Problem;

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

/// The memory that all bodies together may take, in KiB.
#[derive(Debug)]
pub(super) struct Budget(Semaphore);

/// How long a request waits for its share of the budget.
const WAIT: Duration = Duration::from_secs(5);

impl Budget {
    pub(super) fn new(kibibytes: u32) -> Self {
        Self(Semaphore::new(kibibytes as usize))
    }

    /// Sets a share aside until the permit goes.
    pub(super) async fn reserve(&self, bytes: u64) -> Result<SemaphorePermit<'_>, Problem> {
        let kibibytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        match timeout(WAIT, self.0.acquire_many(kibibytes)).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Problem::unavailable("too much is being received at once")),
        }
    }
}

/// A body as it comes in, which fails when it falls behind its pace.
pub(super) struct Paced {
    body: Body,
    pace: Pace,
    start: Instant,
    received: u64,
}

impl Paced {
    pub(super) fn new(body: Body, pace: Pace) -> Self {
        Self { body, pace, start: Instant::now(), received: 0 }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
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

    /// All of it, up to a limit that is kept while reading.
    pub(super) async fn read(mut self, what: &str, most: u64, expected: u64) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::with_capacity(usize::try_from(expected.min(most)).unwrap_or_default());
        while let Some(chunk) = self.next().await? {
            if bytes.len() as u64 + chunk.len() as u64 > most {
                return Err(Problem::too_large(what, most));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

/// The length that a request announces; one that is over the limit is refused unread.
pub(super) fn announced(headers: &HeaderMap, what: &str, most: u64) -> Result<Option<u64>, Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most) {
        return Err(Problem::too_large(what, most));
    }
    Ok(length)
}
