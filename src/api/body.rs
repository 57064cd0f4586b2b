//! A report or a file as the body of a request: streamed, and of a known length.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::domain::live::report::{Chunks, Report};

/// Streams chunks. The size hint is exact, so that the request carries a Content-Length.
pub(super) struct Upload<C> {
    chunks: C,
    left: u64,
    progress: Progress,
    /// Between two chunks the socket is looked at: a service that refuses an upload says so before it
    /// has read all of it, and a body that is always ready would never let its answer be read.
    pause: Option<Pause>,
}

type Pause = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// When an upload last moved, and whether all of it was handed over.
#[derive(Clone)]
pub(super) struct Progress {
    state: Arc<Mutex<(Instant, Handed)>>,
    /// How much of it may be under way when all was handed over, in bytes.
    buffered: u64,
}

/// The most that the buffers of a connection hold, in bytes.
const MOST_BUFFERED: u64 = 8 * 1024 * 1024;

/// What a service takes at least in the time in which nothing has to move, in bytes: what is in buffers
/// moves unseen.
const SLOWEST: u64 = 1024 * 1024;

/// How much of an upload was handed to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    Part,
    All,
}

impl Upload<Chunks> {
    pub(super) fn of_report(report: &Report, progress: Progress) -> Self {
        Self { chunks: report.chunks(), left: report.content_length(), progress, pause: None }
    }
}

/// How much of a file is handed over at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// Streams a file; `sent` is told how much of it each time.
pub(super) fn file(
    mut content: Bytes,
    progress: Progress,
    sent: impl Fn(u64),
) -> Upload<impl Iterator<Item = Bytes>> {
    let left = content.len() as u64;
    let chunks = std::iter::from_fn(move || {
        let chunk = content.split_to(content.len().min(CHUNK));
        sent(chunk.len() as u64);
        Some(chunk).filter(|chunk| !chunk.is_empty())
    });
    Upload { chunks, left, progress, pause: None }
}

impl<C: Iterator<Item: Into<Bytes>> + Unpin> Body for Upload<C> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.progress.state().0 = Instant::now();
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
        }
        self.pause = Some(Box::pin(yield_now()));
        let chunk: Option<Bytes> = self.chunks.next().map(Into::into);
        self.left = self.left.saturating_sub(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
        if self.left == 0 {
            self.progress.state().1 = Handed::All;
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Progress {
    /// Of an upload of so many bytes.
    pub(super) fn new(length: u64) -> Self {
        let handed = if length == 0 { Handed::All } else { Handed::Part };
        let state = Arc::new(Mutex::new((Instant::now(), handed)));
        Self { state, buffered: length.min(MOST_BUFFERED) }
    }

    pub(super) fn handed(&self) -> Handed {
        self.state().1
    }

    /// Returns once nothing has moved for so long; behind the last byte, once what is in buffers has had its
    /// time besides.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let (moved, handed) = *self.state();
            let rest = match handed {
                Handed::Part => 0,
                Handed::All => u32::try_from(self.buffered / SLOWEST).unwrap_or_default(),
            };
            let deadline = moved + limit * (1 + rest);
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, (Instant, Handed)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
