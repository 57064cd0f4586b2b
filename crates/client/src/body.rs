//! Streams a report or a file as the body of a request, with a known length.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

/// The body of a report, which is streamed.
pub trait ReportBody {
    /// Yields the JSON in the pieces that are sent.
    type Chunks: Iterator<Item = Vec<u8>> + Send + Sync + Unpin + 'static;

    /// Number of bytes of all chunks.
    fn content_length(&self) -> u64;

    /// Number of pods that the agent excluded.
    fn excluded_pods(&self) -> u64;

    /// Starts at the first piece. A retry calls it again.
    fn chunks(&self) -> Self::Chunks;
}

/// Streams chunks. The size hint is exact, so that the request carries a Content-Length.
pub(super) struct Upload<C> {
    chunks: C,
    left: u64,
    progress: Progress,
    /// Yields between two chunks, so that the connection can read a response. A service may reject an upload before
    /// it has read all of it.
    pause: Option<Pause>,
}

type Pause = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// When the connection last took a chunk of an upload, and whether it took all of it.
#[derive(Clone)]
pub(super) struct Progress {
    state: Arc<Mutex<(Instant, UploadState)>>,
    /// Bytes that may still be in buffers after the connection took the last chunk.
    buffered: u64,
}

/// Maximum size of the buffers of a connection, in bytes.
const MAX_BUFFERED: u64 = 8 * 1024 * 1024;

/// Bytes that a service reads from buffers at least within one stall timeout. Their progress cannot be observed.
const MIN_BYTES_PER_TIMEOUT: u64 = 1024 * 1024;

/// Whether the connection took all of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UploadState {
    Partial,
    Complete,
}

pub(super) fn report<R: ReportBody>(report: &R, progress: Progress) -> Upload<R::Chunks> {
    Upload { chunks: report.chunks(), left: report.content_length(), progress, pause: None }
}

/// Size of a chunk of a file, in bytes.
const CHUNK_SIZE: usize = 64 * 1024;

/// Streams a file.
pub(super) fn file(mut content: Bytes, progress: Progress) -> Upload<impl Iterator<Item = Bytes>> {
    let left = content.len() as u64;
    let chunks = std::iter::from_fn(move || {
        let chunk = content.split_to(content.len().min(CHUNK_SIZE));
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
            self.progress.state().1 = UploadState::Complete;
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
    /// For an upload of `length` bytes.
    pub(super) fn new(length: u64) -> Self {
        let upload = if length == 0 { UploadState::Complete } else { UploadState::Partial };
        let state = Arc::new(Mutex::new((Instant::now(), upload)));
        Self { state, buffered: length.min(MAX_BUFFERED) }
    }

    pub(super) fn upload_state(&self) -> UploadState {
        self.state().1
    }

    /// Returns when the upload made no progress for `timeout`. After the last chunk, adds time for buffered bytes.
    pub(super) async fn stalled(&self, timeout: Duration) {
        loop {
            let (last_progress, upload) = *self.state();
            let extra = match upload {
                UploadState::Partial => 0,
                UploadState::Complete => {
                    u32::try_from(self.buffered / MIN_BYTES_PER_TIMEOUT).unwrap_or_default()
                }
            };
            let deadline = last_progress + timeout * (1 + extra);
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, (Instant, UploadState)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
