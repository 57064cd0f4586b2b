//! A report as the body of a request: streamed, and of a known length.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::domain::report::{Chunks, Report};

/// Streams a report. The size hint is exact, so that the request carries a Content-Length.
pub(super) struct ReportBody {
    chunks: Chunks,
    left: u64,
    progress: Progress,
}

/// When an upload last moved.
#[derive(Clone)]
pub(super) struct Progress(Arc<Mutex<Instant>>);

impl ReportBody {
    pub(super) fn new(report: &Report, progress: Progress) -> Self {
        Self { chunks: report.chunks(), left: report.content_length(), progress }
    }
}

impl Body for ReportBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.progress.moved();
        Poll::Ready(self.chunks.next().map(|chunk| {
            self.left = self.left.saturating_sub(chunk.len() as u64);
            Ok(Frame::data(chunk.into()))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn moved(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns once nothing has moved for so long.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let deadline = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + limit;
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}
