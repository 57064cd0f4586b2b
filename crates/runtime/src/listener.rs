//! Serves HTTP/1.1 on a socket, with or without TLS, with limits on connections, slow peers and shutdown.
//!
//! Used by the agent for probes and by the service for all requests.
//!
//! Our own loop, because `axum::serve` has no limits for headers, connections or shutdown.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connection::Connection;
use super::machine;
use super::peers::Peers;
use super::tls::Current;
use model::failure_log::{FailureLog, LogAction};

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Timeout of a TLS handshake, of request headers, and of an idle connection.
    pub headers: Duration,
    /// Timeout of a write if the peer does not read.
    pub stall: Duration,
    /// Maximum time between closing a connection and the end of the peer's data.
    pub linger: Duration,
    /// Maximum number of connections; further ones wait to be accepted. A peer may have half of them, and its
    /// further ones are closed.
    pub connections: usize,
    /// Maximum time for open requests during shutdown.
    pub drain: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            connections: 1024,
            drain: Duration::from_secs(20),
        }
    }
}

/// Maximum read and write buffer of a connection, in bytes. The headers of a request must fit. Small, because
/// unauthenticated clients can open all connections.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// File descriptors reserved for the database, notifications and probes.
const RESERVED_FILES: u64 = 192;

impl Bounds {
    /// Limits the connections so that enough file descriptors remain for the rest of the process.
    #[must_use]
    pub fn within_file_limit(self) -> Self {
        let max = machine::max_open_files().unwrap_or(u64::MAX);
        let available = usize::try_from(max - RESERVED_FILES.min(max / 2)).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(available.max(1)), ..self }
    }
}

/// Interval between log lines about connections that are not accepted.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// The peer of a request's connection, as a request extension.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address}{option}")]
pub struct ListenError {
    address: SocketAddr,
    /// The option with the address, in parentheses; may be empty.
    option: &'static str,
    source: io::Error,
}

/// Binds an address. `option` names the option with the address, in parentheses.
///
/// # Errors
///
/// [`ListenError`] for an address that is in use or not local.
pub async fn listen(address: SocketAddr, option: &'static str) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, option, source })
}

/// Serves until `shutdown`, then finishes open requests. Uses TLS if there is a certificate.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Current>,
    router: Router,
    bounds: Bounds,
    shutdown: CancellationToken,
) {
    let mut connections = JoinSet::new();
    let graceful = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(bounds.connections));
    let (peers, max_per_peer) = (Arc::new(Peers::default()), bounds.connections.div_ceil(2));
    let mut accept_failures = FailureLog::new(REMINDER_INTERVAL);
    let mut peer_limit_log = FailureLog::new(REMINDER_INTERVAL);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &free, &mut accept_failures) => accepted,
            Some(ended) = connections.join_next() => {
                // Passes on a panic that the router did not catch.
                if let Err(error) = ended && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
                continue;
            }
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let Some(guard) = peers.try_add(peer.ip(), max_per_peer) else {
            if peer_limit_log.failed("", Instant::now()) != LogAction::Suppress {
                tracing::warn!(%peer, "{} uses half of all connections: closing further ones", peer.ip());
            }
            continue;
        };
        let connection = Connection::new(stream, bounds.stall, bounds.linger);
        let config = tls.as_ref().map(|current| Arc::clone(&current.borrow()));
        let (router, shutdown, watcher) = (router.clone(), shutdown.clone(), graceful.watcher());
        connections.spawn(async move {
            match config {
                None => serve_connection(connection, peer, router, bounds, watcher).await,
                Some(config) => {
                    let stream = tokio::select! {
                        () = shutdown.cancelled() => None,
                        stream = handshake(connection, peer, config, bounds.headers) => stream,
                    };
                    if let Some(stream) = stream {
                        serve_connection(stream, peer, router, bounds, watcher).await;
                    }
                }
            }
            drop((guard, permit));
        });
    }
    drop(listener);
    if timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("open requests did not finish within {:?}: closing their connections", bounds.drain);
    }
    connections.shutdown().await;
}

async fn serve_connection<S>(stream: S, peer: SocketAddr, router: Router, bounds: Bounds, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let app = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!("connection from {peer} failed: {error}");
    }
}

/// Performs the TLS handshake. A failed one sends an alert, which [`Connection`] makes readable for the peer.
async fn handshake(
    connection: Connection,
    peer: SocketAddr,
    config: Arc<ServerConfig>,
    time: Duration,
) -> Option<TlsStream<Connection>> {
    match timeout(time, TlsAcceptor::from(config).accept(connection).into_fallible()).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err((error, mut connection))) => {
            tracing::debug!("TLS handshake with {peer} failed: {error}");
            let _ = poll_fn(|cx| Pin::new(&mut connection).poll_shutdown(cx)).await;
            None
        }
        Err(_) => {
            tracing::debug!("TLS handshake with {peer} timed out after {time:?}");
            None
        }
    }
}

/// Accepts the next connection below the limit.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
    failures: &mut FailureLog,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(free).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            failures.recovered(Instant::now());
            // Small responses are sent without delay.
            let _ = stream.set_nodelay(true);
            Some((stream, peer, permit))
        }
        Err(error) => {
            // Usually out of file descriptors, which become available as connections end.
            let cause = error.to_string();
            if failures.failed(&cause, Instant::now()) != LogAction::Suppress {
                tracing::warn!("failed to accept a connection: {cause}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
