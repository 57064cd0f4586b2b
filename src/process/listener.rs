//! HTTP/1.1 on a socket, with bounds on how many connect, how slow they are, and how long an end
//! takes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connection::Connection;
use crate::domain::outage::{Outage, Say};

/// The bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long a request's headers may take, and a connection may be idle.
    pub headers: Duration,
    /// How long a peer may read nothing of an answer.
    pub stall: Duration,
    /// How long a connection that is closed waits for the peer to stop sending.
    pub linger: Duration,
    /// How many connections there are at once; others wait to be accepted.
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

/// From one line about connections that cannot be accepted to the next.
const REMIND: Duration = Duration::from_mins(1);

/// The other end of a request's connection, among the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {0}")]
pub struct ListenError(SocketAddr, #[source] io::Error);

/// Takes an address, before anything is served there.
///
/// # Errors
///
/// [`ListenError`] where it is taken, or not ours.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|error| ListenError(address, error))
}

/// Serves until `shutdown`, then finishes what is under way.
pub async fn serve(listener: TcpListener, router: Router, bounds: Bounds, shutdown: CancellationToken) {
    let mut connections = JoinSet::new();
    let graceful = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(bounds.connections));
    let mut refusing = Outage::new(REMIND);
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
        let app = router.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            request
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.headers)
            .serve_connection(
                TokioIo::new(Connection::new(stream, bounds.stall, bounds.linger)),
                TowerToHyperService::new(app),
            );
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection from {peer} broke off: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    if timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way after {:?}: they are cut off", bounds.drain);
    }
    connections.shutdown().await;
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
