//! An answer on its way: how large it may become, and that whoever asked for it keeps their turn, and a large one its part
//! of the memory for answers, until the last of it is handed to their connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::body::{Budget, Share};
use super::problem::Problem;
use crate::service::access::Turn;
use crate::service::app::App;

/// An answer up to this size, in bytes, takes no part of the memory: there are as many as connections at most.
const SMALL: u64 = 64 * 1024;

/// How much is handed over at a time, in bytes: what the connection has of it no longer counts.
const PIECE: usize = 64 * 1024;

/// The most that a page of a list is made of, in bytes as they are told: enough for twenty attestations, the default, as
/// large as they may be.
const MOST: u64 = 20_000_000;

/// Refuses what would take more memory than an answer may: what of it would be left out, nobody could ask for.
pub(crate) fn fits(bytes: u64) -> Result<(), String> {
    let megabytes = |bytes: u64| bytes / 1_000_000;
    if bytes <= MOST {
        return Ok(());
    }
    Err(format!("it would take {} MB, and at most {} MB are told at once", megabytes(bytes), megabytes(MOST)))
}

/// A body that holds a turn, and a part of the memory for answers.
struct Sent {
    body: Body,
    /// What came of it and was not handed over yet.
    rest: Bytes,
    _held: (Turn, Option<Share>),
}

/// Has a large answer wait until those before it were read, and be given up where they are not.
pub(crate) async fn sent(State(app): State<App>, request: Request, next: Next) -> Response {
    let turn: Turn = request.extensions().get().cloned().unwrap_or_default();
    let answer = next.run(request).await;
    let size = answer.body().size_hint().lower();
    let mut share = (size > SMALL).then(|| app.outbound.share(turn.organization()));
    if let Some(share) = &mut share {
        // One that is larger than all that its organization may have is sent when nothing else of it is.
        let most = Budget::of_one(app.policy.outbound_kibibytes);
        if share.grow(usize::try_from(size.min(most)).unwrap_or(usize::MAX)).await.is_err() {
            return Problem::unavailable("too many answers wait to be read").into_response();
        }
    }
    answer.map(|body| Body::new(Sent { body, rest: Bytes::new(), _held: (turn, share) }))
}

impl HttpBody for Sent {
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
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
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
