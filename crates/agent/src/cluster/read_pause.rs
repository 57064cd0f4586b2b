//! Batches the events of a watch: a connection pauses after it has read all bytes that arrived.
//!
//! `transport` wraps each TCP connection, and `watch` suspends the pauses while it reads a list. During a pause,
//! the socket is not registered with the runtime: a wake-up for each packet costs more than decoding an event.
//! The first bytes after an idle period are read at once, and an idle connection causes no wake-ups.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The pause of all connections to one API server.
#[derive(Debug, Clone)]
pub(super) struct ReadPause {
    duration: Duration,
    suspensions: Arc<AtomicUsize>,
}

/// No pause begins while this exists; a current one ends within its duration.
#[must_use]
pub(super) struct Suspension(Arc<AtomicUsize>);

pub(super) struct PausingStream {
    socket: Socket,
    read_pause: ReadPause,
    /// Bytes were read since the last pause.
    has_read: bool,
}

enum Socket {
    Registered(TcpStream),
    Paused(std::net::TcpStream, Pin<Box<Sleep>>),
    /// Registering it failed.
    Closed,
}

impl ReadPause {
    pub(super) fn new(duration: Duration) -> Self {
        Self { duration, suspensions: Arc::default() }
    }

    pub(super) fn suspend(&self) -> Suspension {
        self.suspensions.fetch_add(1, Ordering::Relaxed);
        Suspension(Arc::clone(&self.suspensions))
    }

    pub(super) fn stream(&self, socket: TcpStream) -> PausingStream {
        PausingStream { socket: Socket::Registered(socket), read_pause: self.clone(), has_read: false }
    }

    fn is_suspended(&self) -> bool {
        self.duration.is_zero() || self.suspensions.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PausingStream {
    fn pause(&mut self) -> io::Result<()> {
        if let Socket::Registered(socket) = std::mem::replace(&mut self.socket, Socket::Closed) {
            self.socket = Socket::Paused(socket.into_std()?, Box::pin(sleep(self.read_pause.duration)));
        }
        Ok(())
    }

    /// Ends the pause, if there is one.
    fn registered(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let Socket::Paused(..) = self.socket
            && let Socket::Paused(socket, _) = std::mem::replace(&mut self.socket, Socket::Closed)
        {
            self.socket = Socket::Registered(TcpStream::from_std(socket)?);
        }
        match &mut self.socket {
            Socket::Registered(socket) => Ok(Pin::new(socket)),
            Socket::Paused(..) | Socket::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for PausingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Socket::Paused(_, sleep) = &mut self.socket {
                ready!(sleep.as_mut().poll(context));
            }
            let before = buffer.filled().len();
            let read = self.registered()?.poll_read(context, buffer);
            if read.is_ready() {
                self.has_read |= buffer.filled().len() > before;
                return read;
            }
            let has_read = std::mem::take(&mut self.has_read);
            if !has_read || self.read_pause.is_suspended() {
                return Poll::Pending;
            }
            self.pause()?;
        }
    }
}

impl AsyncWrite for PausingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Socket::Paused(..) = self.socket {
            // The reader waits for the end of the pause, which ends here.
            context.waker().wake_by_ref();
        }
        self.registered()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // There is no write buffer, and a flush must not end the pause.
        match &mut self.socket {
            Socket::Registered(socket) => Pin::new(socket).poll_flush(context),
            Socket::Paused(..) | Socket::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered()?.poll_shutdown(context)
    }
}

impl Connection for PausingStream {
    fn connected(&self) -> Connected {
        match &self.socket {
            Socket::Registered(socket) => socket.connected(),
            Socket::Paused(..) | Socket::Closed => Connected::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn suspension_and_write_override_the_pause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let (socket, (mut peer, _)) = tokio::try_join!(connect, listener.accept()).unwrap();
        let read_pause = ReadPause::new(Duration::from_hours(1));
        let suspension = read_pause.suspend();
        let (mut reader, mut writer) = split(read_pause.stream(socket));
        let mut byte = [0];
        for sent in [b"a", b"b"] {
            let (read, written) = tokio::join!(reader.read_exact(&mut byte), peer.write_all(sent));
            assert!(read.is_ok() && written.is_ok() && &byte == sent);
        }
        drop(suspension);
        // The reader is polled first, and pauses.
        let write = async {
            peer.write_all(b"c").await?;
            writer.write_all(b"d").await
        };
        let (read, written) = tokio::join!(reader.read_exact(&mut byte), write);
        assert!(read.is_ok() && written.is_ok() && &byte == b"c");
    }
}
