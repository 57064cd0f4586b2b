//! HTTP/1.1 on a socket, in the clear or over TLS, with bounds on how many connect, how slow they are, and how
//! long an end takes.

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
use crate::domain::failure_log::{Outage, Say};

/// The bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long a request's headers may take, and before them a TLS handshake, and a connection may be idle.
    pub headers: Duration,
    /// How long a peer may read nothing of an answer.
    pub stall: Duration,
    /// How long a connection that is closed waits for the peer to stop sending.
    pub linger: Duration,
    /// How many connections there are at once; others wait to be accepted. One peer has half of them at most, and
    /// what it opens beyond that is closed.
    pub connections: usize,
    /// How long requests under way are waited for at the end.
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

/// How much of what a peer sent, and of what it is to be sent, a connection holds, in bytes: the headers of a request
/// have to fit. Whoever connects needs no token, so all connections together have to be small.
const BUFFER: usize = 64 * 1024;

/// The files that a service may want beside its connections: for its database, its notifications and its probes.
const OTHER_FILES: u64 = 192;

impl Bounds {
    /// The same, with no more connections than leave room for the other files of this process: whoever connects must
    /// not keep it from its database.
    #[must_use]
    pub fn beside_other_files(self) -> Self {
        let most = machine::open_files().unwrap_or(u64::MAX);
        let rest = usize::try_from(most - OTHER_FILES.min(most / 2)).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(rest.max(1)), ..self }
    }
}

/// From one line about connections that cannot be accepted to the next.
const REMIND: Duration = Duration::from_mins(1);

/// The other end of a request's connection, among the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}{given_by}")]
pub struct ListenError {
    address: SocketAddr,
    /// What gives the address, in brackets; empty where nobody gave it.
    given_by: &'static str,
    source: io::Error,
}

/// Takes an address, before anything is served there. `given_by` says in brackets what gives the address.
///
/// # Errors
///
/// [`ListenError`] where it is taken, or not ours.
pub async fn listen(address: SocketAddr, given_by: &'static str) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, given_by, source })
}

/// Serves until `shutdown`, then finishes what is under way; over TLS where there is a certificate.
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
    let (peers, most) = (Arc::new(Peers::default()), bounds.connections.div_ceil(2));
    let (mut refusing, mut crowded) = (Outage::new(REMIND), Outage::new(REMIND));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &free, &mut refusing) => accepted,
            Some(ended) = connections.join_next() => {
                // A router that catches panics has none here; where one does not, whoever owns this
                // listener has to know.
                if let Err(error) = ended && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
                continue;
            }
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let Some(counted) = peers.count(peer.ip(), most) else {
            if crowded.failed("crowded", Instant::now()) != Say::Nothing {
                tracing::warn!(%peer, "{} has half of all connections: what it opens beyond that is closed", peer.ip());
            }
            continue;
        };
        let connection = Connection::new(stream, bounds.stall, bounds.linger);
        let config = tls.as_ref().map(|current| Arc::clone(&current.borrow()));
        let (router, shutdown, watcher) = (router.clone(), shutdown.clone(), graceful.watcher());
        connections.spawn(async move {
            match config {
                None => answer(connection, peer, router, bounds, watcher).await,
                Some(config) => {
                    let shaken = tokio::select! {
                        () = shutdown.cancelled() => None,
                        shaken = shake(connection, peer, config, bounds.headers) => shaken,
                    };
                    if let Some(stream) = shaken {
                        answer(stream, peer, router, bounds, watcher).await;
                    }
                }
            }
            drop((counted, permit));
        });
    }
    drop(listener);
    if timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way after {:?}: they are cut off", bounds.drain);
    }
    connections.shutdown().await;
}

/// Answers what comes over a connection, one request after the other.
async fn answer<S>(stream: S, peer: SocketAddr, router: Router, bounds: Bounds, watcher: Watcher)
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
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!("the connection from {peer} broke off: {error}");
    }
}

/// Agrees on TLS. A peer that does not gets an alert, which it can read: see [`Connection`].
async fn shake(
    connection: Connection,
    peer: SocketAddr,
    config: Arc<ServerConfig>,
    time: Duration,
) -> Option<TlsStream<Connection>> {
    match timeout(time, TlsAcceptor::from(config).accept(connection).into_fallible()).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err((error, mut connection))) => {
            tracing::debug!("no TLS with {peer}: {error}");
            let _ = poll_fn(|cx| Pin::new(&mut connection).poll_shutdown(cx)).await;
            None
        }
        Err(_) => {
            tracing::debug!("no TLS with {peer}: its handshake took longer than {time:?}");
            None
        }
    }
}

/// The next connection, once there may be one more.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
    refusing: &mut Outage,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(free).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            refusing.over(Instant::now());
            // Small answers do not wait for company.
            let _ = stream.set_nodelay(true);
            Some((stream, peer, permit))
        }
        Err(error) => {
            // Out of file descriptors, most likely: they come back as connections end.
            let words = error.to_string();
            match refusing.failed(&words, Instant::now()) {
                Say::Nothing => {}
                Say::This | Say::Still(..) => tracing::warn!("no connection could be accepted: {words}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
