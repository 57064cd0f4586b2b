//! An answer on its way: whoever asked for it keeps their turn until the last of it is handed to their connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::access::Turn;

/// How much is handed over at a time, in bytes: what the connection has of it no longer counts.
const PIECE: usize = 64 * 1024;

/// A body that holds a turn.
pub(super) struct Sent {
    body: Body,
    /// What came of it and was not handed over yet.
    rest: Bytes,
    _turn: Turn,
}

impl Sent {
    /// This body, with this turn.
    pub(super) fn new(body: Body, turn: Turn) -> Self {
        Self { body, rest: Bytes::new(), _turn: turn }
    }
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
