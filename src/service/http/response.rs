//! Responses that are being sent: their size limit, and the permits and memory that they hold until the connection has
//! taken the last byte.

use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::body::{Budget, Share};
use super::context::RequestContext;
use super::problem::Problem;
use crate::service::app::App;
use crate::service::limits::cpu_share::CpuShare;

/// Maximum size of a response that needs no share of the memory, in bytes: the number of connections bounds these.
const SMALL: u64 = 64 * 1024;

/// Size of a chunk, in bytes. Chunks that the connection has taken no longer count.
const CHUNK: usize = 64 * 1024;

/// Maximum size of a page of a list, in bytes: enough for 20 attestations, the default, of maximum size.
const MAX_PAGE_BYTES: u64 = 20_000_000;

/// Rejects a page over the maximum: truncating it would make the rest unreachable.
pub(crate) fn check_size(bytes: u64) -> Result<(), String> {
    let megabytes = |bytes: u64| bytes / 1_000_000;
    if bytes <= MAX_PAGE_BYTES {
        return Ok(());
    }
    Err(format!(
        "the page would have {} MB: expected at most {} MB",
        megabytes(bytes),
        megabytes(MAX_PAGE_BYTES)
    ))
}

/// The response to a request that creates an object, or changes an existing one.
pub(crate) fn created(is_new: bool) -> Response {
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    (status, axum::Json("OK")).into_response()
}

/// A JSON response of about this size in bytes: [`axum::Json`] starts with 128 bytes, and copies the text as it grows.
pub(crate) fn large_json(size: usize, value: &impl Serialize) -> Result<Response, Problem> {
    let mut text = Vec::with_capacity(size);
    serde_json::to_writer(&mut text, value).map_err(|error| {
        tracing::error!("failed to write a response: {error}");
        Problem::defect()
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// A JSON response that a blocking thread writes while the client reads it. `size` is a lower bound of its size in bytes.
/// The connection is aborted if it cannot be written to its end.
pub(crate) fn stream(
    cpu: &CpuShare,
    size: u64,
    write: impl FnOnce(&mut dyn Write) -> serde_json::Result<()> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    let (cpu, span) = (cpu.clone(), tracing::Span::current());
    tokio::task::spawn_blocking(move || {
        let _entered = span.entered();
        let turn = cpu.blocking_turn();
        let mut chunks = Chunks { sender, buffer: Vec::with_capacity(CHUNK), cpu, turn };
        match write(&mut chunks).map_err(io::Error::from).and_then(|()| chunks.flush()) {
            // The empty chunk is the end.
            Ok(()) => drop(chunks.flush()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => tracing::error!("failed to write a response: {error}"),
        }
    });
    let body = Body::new(StreamedBody { receiver, rest: size });
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Sends what is written in chunks. Waits for the client, without its share of the threads meanwhile.
struct Chunks {
    sender: mpsc::Sender<Vec<u8>>,
    buffer: Vec<u8>,
    cpu: CpuShare,
    turn: Option<OwnedSemaphorePermit>,
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.turn = None;
        let sent = self.sender.blocking_send(std::mem::take(&mut self.buffer));
        self.turn = self.cpu.blocking_turn();
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

/// The chunks of a response.
struct StreamedBody {
    receiver: mpsc::Receiver<Vec<u8>>,
    /// Lower bound of the bytes that are not sent yet.
    rest: u64,
}

impl HttpBody for StreamedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Poll::Ready(match ready!(self.receiver.poll_recv(cx)) {
            Some(chunk) if chunk.is_empty() => None,
            Some(chunk) => {
                self.rest = self.rest.saturating_sub(chunk.len() as u64);
                Some(Ok(Frame::data(chunk.into())))
            }
            None => Some(Err(Error::new(io::Error::from(ErrorKind::UnexpectedEof)))),
        })
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.rest);
        hint
    }
}

/// A body that holds the permits of its request, and its memory.
struct HeldBody {
    body: Body,
    /// The part of the current frame that the connection has not taken yet.
    rest: Bytes,
    _held: (RequestContext, Option<Share>),
}

/// Delays a large response until memory is free. Returns 503 if clients do not read earlier responses in time.
pub(crate) async fn limit_memory(
    State(app): State<App>,
    context: RequestContext,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    if let Some(cpu) = context.cpu_share() {
        cpu.release();
    }
    let size = response.body().size_hint().lower();
    let mut share = (size > SMALL).then(|| app.outbound.share(context.organization()));
    if let Some(share) = &mut share {
        // A response over the maximum of its organization is sent when the organization has no other.
        let max = Budget::max_per_organization(app.limits.outbound_kibibytes);
        if share.grow(usize::try_from(size.min(max)).unwrap_or(usize::MAX)).await.is_err() {
            return Problem::unavailable("too many responses are waiting to be read; retry later")
                .into_response();
        }
    }
    response.map(|body| Body::new(HeldBody { body, rest: Bytes::new(), _held: (context, share) }))
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return Poll::Ready(other),
            }
        }
        let chunk = self.rest.len().min(CHUNK);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde::ser::Error as _;

    use super::*;
    use crate::service::limits::cpu_share::CpuShares;

    #[tokio::test]
    async fn response_that_cannot_be_written_to_its_end_is_an_error() {
        let cpu = CpuShares::new().get("acme");
        let complete = stream(&cpu, 1, |to| serde_json::to_writer(to, &vec!['a'; CHUNK]));
        let body = complete.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(serde_json::from_slice::<Vec<char>>(&body).unwrap().len(), CHUNK);
        let cut = stream(&cpu, 1, |to| {
            serde_json::to_writer(to, &vec!['a'; CHUNK])?;
            Err(serde_json::Error::custom("no end"))
        });
        assert!(cut.into_body().collect().await.is_err());
    }
}
