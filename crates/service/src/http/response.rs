//! Responses that are being sent: their size limit, and the memory that they hold until the connection has taken the last
//! byte.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::app::App;
use crate::http::body::{Budget, Share};
use crate::http::context::RequestContext;
use crate::http::problem::Problem;

/// Maximum size of a response that needs no share of the memory, in bytes: the number of connections bounds these.
const SMALL: u64 = 64 * 1024;

/// Size of a chunk, in bytes. Chunks that the connection has taken no longer count.
const CHUNK: usize = 64 * 1024;

/// The response to a request that creates an object, or changes an existing one.
pub(crate) fn created(is_new: bool) -> Response {
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    (status, axum::Json("OK")).into_response()
}

/// A body that holds its memory.
struct HeldBody {
    body: Body,
    /// The part of the current frame that the connection has not taken yet.
    rest: Bytes,
    _share: Share,
}

/// Delays a large response until memory is free. The request keeps its permits meanwhile: few responses of an organization
/// wait at a time. Returns 503 if clients do not read earlier responses in time.
pub(crate) async fn limit_memory(
    State(app): State<App>,
    context: RequestContext,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let size = response.body().size_hint().lower();
    if size <= SMALL {
        return response;
    }
    let mut share = app.outbound.share(context.organization());
    // A response over the maximum of its organization is sent when the organization has no other.
    let max = Budget::max_per_organization(app.limits.outbound_kibibytes);
    if share.grow(usize::try_from(size.min(max)).unwrap_or(usize::MAX)).await.is_err() {
        return Problem::unavailable("too many responses are waiting to be read; retry later")
            .into_response();
    }
    response.map(|body| Body::new(HeldBody { body, rest: Bytes::new(), _share: share }))
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
