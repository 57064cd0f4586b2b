//! A TCP connection that no peer can hold for ever, and that closes so that its last answer is read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// A connection whose writes fail once the peer has read nothing for a while, and whose end waits for
/// the peer to stop sending: closed at once, what the peer has under way would be answered with a
/// reset, and the reset can overtake the answer that refused it (RFC 9112, section 9.6). TLS is spoken on top of
/// it, so that all of this holds for its records, and for its alerts, too.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    stall: Duration,
    linger: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs from the end of our own sending.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, stall: Duration, linger: Duration) -> Self {
        Self { stream, stall, linger, stalled: None, lingering: None }
    }

    fn waited<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.waited(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.waited(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.lingering = Some(Box::pin(sleep(self.linger)));
        }
        let mut unread = [0; 16 * 1024];
        loop {
            let over = self.lingering.as_mut().is_none_or(|over| over.as_mut().poll(cx).is_ready());
            if over {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut unread);
            match std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
