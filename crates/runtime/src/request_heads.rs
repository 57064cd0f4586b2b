//! Finds requests whose length two readers may understand differently.
//!
//! hyper accepts equal copies of `Content-Length`, and drops them before the request is seen. So this follows the bytes
//! of a connection, from head to head, above TLS. Where a body of `Transfer-Encoding` begins, it stops: the listener
//! closes the connection after it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether a request on the connection had several lengths.
#[derive(Debug, Clone, Default)]
pub(super) struct SeveralLengths(Arc<AtomicBool>);

/// A stream whose requests are followed.
#[derive(Debug)]
pub(super) struct FollowedStream<S> {
    stream: S,
    place: Place,
    max_head: usize,
    several_lengths: SeveralLengths,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Place {
    /// A head that begins with these bytes.
    Head(Vec<u8>),
    /// A body of which this many bytes remain.
    Body(u64),
    /// The last request of the connection.
    Last,
}

impl SeveralLengths {
    pub(super) fn were_seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the body is encoded otherwise than in chunks only, which hyper ignores.
pub(super) fn has_other_encoding(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let only = encodings.next();
    encodings.next().is_some() || only.is_some_and(|only| !only.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

impl<S> FollowedStream<S> {
    pub(super) fn new(stream: S, max_head: usize) -> Self {
        Self { stream, place: Place::Head(Vec::new()), max_head, several_lengths: SeveralLengths::default() }
    }

    pub(super) fn several_lengths(&self) -> SeveralLengths {
        self.several_lengths.clone()
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.place {
                Place::Last => return,
                Place::Body(left) => {
                    let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= skipped as u64;
                    bytes = bytes.get(skipped..).unwrap_or_default();
                    if *left == 0 {
                        self.place = Place::Head(Vec::new());
                    }
                }
                Place::Head(head) => {
                    let (line, rest) = match bytes.iter().position(|byte| *byte == b'\n') {
                        Some(end) => bytes.split_at(end + 1),
                        None => (bytes, &[][..]),
                    };
                    bytes = rest;
                    head.extend_from_slice(line);
                    if matches!(&**head, b"\n" | b"\r\n") {
                        // An empty line before a request (RFC 9112, section 2.2).
                        head.clear();
                    } else if head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n") {
                        let head = std::mem::take(head);
                        self.place = self.after(&head);
                    } else if head.len() > self.max_head {
                        self.place = Place::Last;
                    }
                }
            }
        }
    }

    /// The place after a head.
    fn after(&self, head: &[u8]) -> Place {
        let headers = head.split(|byte| *byte == b'\n').skip(1);
        let headers = headers.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at_checked(colon)?;
            Some((name, value.get(1..)?.trim_ascii()))
        });
        let (mut length, mut is_encoded) = (None, false);
        for (name, value) in headers {
            if name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes()) {
                if length.is_some() {
                    self.several_lengths.0.store(true, Ordering::Relaxed);
                }
                length = Some(str::from_utf8(value).ok().and_then(|value| value.parse().ok()));
            }
            is_encoded |= name.eq_ignore_ascii_case(TRANSFER_ENCODING.as_str().as_bytes());
        }
        match length {
            _ if is_encoded => Place::Last,
            None | Some(Some(0)) => Place::Head(Vec::new()),
            Some(Some(length)) => Place::Body(length),
            // hyper rejects it.
            Some(None) => Place::Last,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FollowedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        self.follow(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FollowedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether several lengths are seen in a request, however its bytes arrive.
    fn sees_several(bytes: &str) -> bool {
        let seen = [1, 2, 7, bytes.len()].map(|size| {
            let mut stream = FollowedStream::new((), 1024);
            bytes.as_bytes().chunks(size).for_each(|bytes| stream.follow(bytes));
            stream.several_lengths().were_seen()
        });
        assert!(seen.iter().all(|several| *several == seen[0]), "{bytes:?}");
        seen[0]
    }

    #[test]
    fn several_lengths_are_seen_in_each_head_and_in_no_body() {
        const TWO: &str = "POST / HTTP/1.1\r\nContent-Length: 3\r\nHost: x\r\ncontent-length:3\r\n\r\nabc";
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let post = |body: &str| format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for (bytes, expected) in [
            (TWO.to_owned(), true),
            (TWO.replace("\r\n", "\n"), true),
            (format!("\r\n\r\n{TWO}"), true),
            (format!("{get}{TWO}"), true),
            (format!("{}{TWO}", post("abc")), true),
            (format!("{}{TWO}", post("\r\n\r\n")), true),
            (format!("{}{TWO}", post("")), true),
            (format!("{}\r\n{TWO}", post("abc")), true),
            (post("abc"), false),
            (post(TWO), false),
            (format!("{}{}", post("abc"), post("abc")), false),
            (format!("{get}{}{get}", post(TWO)), false),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n".to_owned() + TWO,
                false,
            ),
        ] {
            assert_eq!(sees_several(&bytes), expected, "{bytes:?}");
        }
    }
}
