//! Serves HTTP/1.1 on a socket, with or without TLS, with limits on connections, slow peers and shutdown.
//!
//! Used by the agent for probes and by the service for all requests.
//!
//! Our own loop, because `axum::serve` has no limits for headers, connections or shutdown.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, TRANSFER_ENCODING};
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connection::Connection;
use super::machine;
use super::peers::{ConnectionGuard, Peers};
use super::request_heads::{FollowedStream, has_other_encoding};
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
    /// Maximum number of connections, of which a peer may have half. Further ones close idle ones. If none is idle,
    /// they wait, or are closed if their peer has half.
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
    /// For probes and metrics.
    pub const PROBES: Self = Self {
        headers: Duration::from_secs(2),
        stall: Duration::from_secs(10),
        linger: Duration::from_secs(1),
        connections: 64,
        drain: Duration::from_secs(1),
    };

    /// Limits the connections so that enough file descriptors remain for the rest of the process.
    #[must_use]
    pub fn within_file_limit(self) -> Self {
        let max = machine::max_open_files().unwrap_or(u64::MAX);
        let available = usize::try_from(max - RESERVED_FILES.min(max / 2)).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(available.max(1)), ..self }
    }
}

/// The response to a request whose end a proxy may see elsewhere.
const AMBIGUOUS: &str = "expected one Content-Length, or Transfer-Encoding: chunked\n";

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
    let peers = Arc::new(Peers::new(bounds.connections));
    let mut accept_failures = FailureLog::new(REMINDER_INTERVAL);
    let mut peer_limit_log = FailureLog::new(REMINDER_INTERVAL);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &mut accept_failures) => accepted,
            Some(ended) = connections.join_next() => {
                // Passes on a panic that the router did not catch.
                if let Err(error) = ended && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
                continue;
            }
        };
        let Some((stream, peer)) = accepted else { continue };
        let admitted = tokio::select! {
            () = shutdown.cancelled() => break,
            admitted = peers.admit(peer.ip()) => admitted,
        };
        let Ok(guard) = admitted else {
            if peer_limit_log.failed("", Instant::now()) != LogAction::Suppress {
                tracing::warn!(%peer, "{} uses half of all connections: closing further ones", peer.ip());
            }
            continue;
        };
        let connection = Connection::new(stream, bounds.stall, bounds.linger);
        let config = tls.as_ref().map(|current| Arc::clone(&current.borrow()));
        let (router, shutdown, watcher) = (router.clone(), shutdown.clone(), graceful.watcher());
        connections.spawn(async move {
            let evicted = guard.evicted.clone();
            let serving = async move {
                match config {
                    None => serve_connection(connection, peer, guard, router, bounds, watcher).await,
                    Some(config) => {
                        let stream = tokio::select! {
                            () = shutdown.cancelled() => None,
                            stream = handshake(connection, peer, config, bounds.headers) => stream,
                        };
                        if let Some(stream) = stream {
                            serve_connection(stream, peer, guard, router, bounds, watcher).await;
                        }
                    }
                }
            };
            tokio::select! {
                biased;
                () = evicted.cancelled() => tracing::debug!("closed an idle connection from {peer} for another one"),
                () = serving => {}
            }
        });
    }
    drop(listener);
    if timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("open requests did not finish within {:?}: closing their connections", bounds.drain);
    }
    connections.shutdown().await;
}

async fn serve_connection<S>(
    stream: S,
    peer: SocketAddr,
    guard: Arc<ConnectionGuard>,
    router: Router,
    bounds: Bounds,
    watcher: Watcher,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = FollowedStream::new(stream, MAX_BUFFER_BYTES);
    let several_lengths = stream.several_lengths();
    let app = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let running = guard.request();
        let is_last = request.headers().contains_key(TRANSFER_ENCODING);
        let is_ambiguous = several_lengths.were_seen() || has_other_encoding(request.headers());
        let response = (!is_ambiguous).then(|| router.clone().oneshot(request));
        // The request runs until the body of its response has been taken.
        let until_taken = |body: Body| {
            body.map_err(move |error| {
                let _ = &running;
                error
            })
        };
        async move {
            let mut response = match response {
                Some(response) => response.await?,
                None => (StatusCode::BAD_REQUEST, AMBIGUOUS).into_response(),
            };
            if is_ambiguous || is_last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(until_taken))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers)
        .max_buf_size(MAX_BUFFER_BYTES)
        .max_header_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), app);
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

async fn accept(listener: &TcpListener, failures: &mut FailureLog) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            failures.recovered(Instant::now());
            // Small responses are sent without delay.
            let _ = stream.set_nodelay(true);
            Some((stream, peer))
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

/// Other systems have only one loopback address.
#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use axum::routing::get;
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;
    use tokio::sync::Semaphore;

    use super::*;

    /// Serves `/`, and `/wait` for as many requests as permits were added.
    struct Listening {
        address: SocketAddr,
        permits: Arc<Semaphore>,
        serving: tokio::task::JoinHandle<()>,
    }

    impl Listening {
        async fn start(bounds: Bounds) -> Self {
            let listener = listen(([127, 0, 0, 1], 0).into(), "").await.unwrap();
            let address = listener.local_addr().unwrap();
            let permits = Arc::new(Semaphore::new(0));
            let waiting = Arc::clone(&permits);
            let wait = async move || {
                waiting.acquire().await.unwrap().forget();
                "ok\n"
            };
            let router = Router::new().route("/", get(async || "ok\n")).route("/wait", get(wait));
            let serving = tokio::spawn(serve(listener, None, router, bounds, CancellationToken::new()));
            Self { address, permits, serving }
        }

        /// A connection from 127.0.0.`host`.
        async fn connect(&self, host: u8) -> TcpStream {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, host], 0).into()).unwrap();
            socket.connect(self.address).await.unwrap()
        }

        async fn get(&self, host: u8, path: &str) -> TcpStream {
            let mut stream = self.connect(host).await;
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            stream
        }
    }

    impl Drop for Listening {
        fn drop(&mut self) {
            self.serving.abort();
        }
    }

    async fn answer(stream: &mut TcpStream) -> bool {
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\nok\n") {
            if stream.read_buf(&mut response).await.unwrap_or_default() == 0 {
                return false;
            }
        }
        true
    }

    async fn is_closed(stream: &mut TcpStream) -> bool {
        let mut rest = Vec::new();
        let read = timeout(Duration::from_mins(1), stream.read_to_end(&mut rest)).await;
        read.is_ok() && rest.is_empty()
    }

    fn bounds(connections: usize) -> Bounds {
        Bounds { connections, headers: Duration::from_mins(10), ..Bounds::default() }
    }

    #[tokio::test]
    async fn request_is_answered_at_once_beside_idle_connections_of_two_addresses() {
        let listening = Listening::start(bounds(64)).await;
        let mut idle = Vec::new();
        for host in [2; 40].into_iter().chain([3; 40]) {
            idle.push(listening.connect(host).await);
        }
        let mut probe = listening.get(1, "/").await;
        assert!(timeout(Duration::from_mins(1), answer(&mut probe)).await.expect("it waits"));
    }

    #[tokio::test]
    async fn one_address_uses_at_most_half_of_the_connections() {
        let listening = Listening::start(bounds(4)).await;
        let mut running = [listening.get(2, "/wait").await, listening.get(2, "/wait").await];
        for _ in 0..20 {
            let mut more = listening.connect(2).await;
            assert!(is_closed(&mut more).await);
        }
        assert!(answer(&mut listening.get(1, "/").await).await);
        listening.permits.add_permits(1);
        let [one, two] = &mut running;
        let (answered, _, _) =
            futures_util::future::select_all([answer(one).boxed(), answer(two).boxed()]).await;
        assert!(answered);
        assert!(answer(&mut listening.get(2, "/").await).await, "one of its connections is idle");
    }

    #[tokio::test]
    async fn connection_above_the_total_waits_until_one_is_idle() {
        let listening = Listening::start(bounds(2)).await;
        let mut running = [listening.get(1, "/wait").await, listening.get(2, "/wait").await];
        let mut waiting = listening.get(3, "/").await;
        // A request of a connection that was accepted before would be answered in this time.
        assert!(timeout(Duration::from_millis(100), waiting.readable()).await.is_err());
        listening.permits.add_permits(2);
        for stream in &mut running {
            assert!(answer(stream).await);
        }
        assert!(answer(&mut waiting).await);
    }

    /// The responses to raw requests, until the connection is closed.
    async fn raw(listening: &Listening, requests: &str) -> String {
        let mut stream = listening.connect(1).await;
        stream.write_all(requests.as_bytes()).await.unwrap();
        let mut responses = Vec::new();
        timeout(Duration::from_mins(1), stream.read_to_end(&mut responses)).await.unwrap().unwrap();
        String::from_utf8(responses).unwrap()
    }

    #[tokio::test]
    async fn request_with_an_ambiguous_length_gets_400_and_the_connection_is_closed() {
        let listening = Listening::start(bounds(8)).await;
        let next = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        for (headers, body) in [
            ("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
            ("Content-Length: 3\r\ncontent-length:  3 \r\n", "abc"),
            ("Content-Length: 3\r\nContent-Length: 4\r\n", "abc"),
            ("Content-Length: 3, 3\r\n", "abc"),
            ("Content-Length: +3\r\n", "abc"),
            ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
            ("Transfer-Encoding: identity\r\n", ""),
            ("Content-Length: 3\r\n folded: x\r\n", "abc"),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}{next}");
            let responses = raw(&listening, &request).await;
            assert!(responses.starts_with("HTTP/1.1 400"), "{headers:?}: {responses}");
            assert_eq!(responses.matches("HTTP/1.1").count(), 1, "{headers:?}: {responses}");
        }
        // A connection whose later requests cannot be followed has none.
        for headers in
            ["Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n"]
        {
            let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n0\r\n\r\n{next}");
            let responses = raw(&listening, &request).await;
            assert!(responses.starts_with("HTTP/1.1 200"), "{headers:?}: {responses}");
            assert_eq!(responses.matches("HTTP/1.1").count(), 1, "{headers:?}: {responses}");
        }
    }

    #[tokio::test]
    async fn headers_over_the_buffer_get_431() {
        let listening = Listening::start(bounds(8)).await;
        for (size, status) in [(60_000, "200"), (66_000, "431"), (100_000, "431")] {
            let header = "a".repeat(size);
            let request = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {header}\r\n\r\n");
            let response = raw(&listening, &request).await;
            assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{size}: {response}");
        }
    }

    #[tokio::test]
    async fn idle_connection_is_closed_after_the_header_timeout() {
        let bounds = Bounds { headers: Duration::from_millis(50), ..bounds(8) };
        let listening = Listening::start(bounds).await;
        assert!(is_closed(&mut listening.connect(1).await).await, "without a request");
        let mut used = listening.get(1, "/").await;
        assert!(answer(&mut used).await);
        assert!(is_closed(&mut used).await, "after a request");
    }
}
