//! An HTTP/1 server on loopback, with or without TLS, that sends scripted replies and records requests.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_rustls::TlsAcceptor;

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Percent-encoded, as received.
    pub path: String,
    pub query: String,
    pub headers: http::HeaderMap,
    pub body: Bytes,
    /// The client certificate, in DER.
    pub certificate: Option<Vec<u8>>,
}

/// The reply to a request.
pub enum Reply {
    /// A complete response: status, headers, body.
    Response(u16, Vec<(&'static str, String)>, Bytes),
    /// The same, but the connection is cut after this many bytes of the body.
    Cut(u16, Vec<(&'static str, String)>, Bytes, usize),
    /// The same, but the response stalls after this many bytes of the body.
    StallAfter(u16, Vec<(&'static str, String)>, Bytes, usize),
    /// A body that never ends.
    Endless(u16, Vec<(&'static str, String)>),
    /// No response while the connection stays open.
    Stall,
    /// Closes the connection without a response.
    Reset,
    /// A body that is produced while it is sent, and ends when the sender is dropped.
    Stream(u16, Vec<(&'static str, String)>, mpsc::Receiver<Piece>),
    /// The reply that this future returns.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

/// A part of a streamed body.
pub enum Piece {
    Bytes(Bytes),
    /// Cuts the connection.
    Cut,
}

/// The decision after the head of a request was read.
pub enum Plan {
    /// Reads the body, then replies.
    Read(Box<dyn FnOnce(&Request) -> Reply + Send>),
    /// Replies now, never reads the body, and keeps the connection open (RFC 9112, section 9.6).
    HeadOnly(Reply),
    /// Cuts the connection after this many bytes of the request body.
    CutUploadAfter(usize),
}

type Planner = dyn Fn(&Request) -> Plan + Send + Sync;

/// Instructions to a running server.
#[derive(Clone, Copy)]
struct Control {
    /// Connections of an older generation are dropped.
    generation: u64,
    is_listening: bool,
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    requests: Arc<Mutex<Vec<Request>>>,
    control: watch::Sender<Control>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Reserves the port while the server does not listen.
    _port: TcpSocket,
}

impl Reply {
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::Response(status, vec![("content-type", "application/json".into())], body.into())
    }

    pub fn text(status: u16, body: &str) -> Self {
        let headers = vec![("content-type", "text/plain; charset=utf-8".into())];
        Self::Response(status, headers, Bytes::copy_from_slice(body.as_bytes()))
    }

    /// Adds a header to a complete response.
    pub fn with(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Response(status, mut headers, body) => {
                headers.push((name, value.into()));
                Self::Response(status, headers, body)
            }
            other => other,
        }
    }
}

impl Server {
    pub fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::launch(None, reading(reply))
    }

    pub fn start_head_only(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::launch(None, Arc::new(move |request| Plan::HeadOnly(reply(request))))
    }

    pub fn start_tls(
        tls: rustls::ServerConfig,
        reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::launch(Some(TlsAcceptor::from(Arc::new(tls))), reading(reply))
    }

    /// A server that decides on the head of a request whether to read its body.
    pub fn start_planning(
        tls: Option<rustls::ServerConfig>,
        plan: impl Fn(&Request) -> Plan + Send + Sync + 'static,
    ) -> Self {
        Self::launch(tls.map(|tls| TlsAcceptor::from(Arc::new(tls))), Arc::new(plan))
    }

    fn launch(tls: Option<TlsAcceptor>, planner: Arc<Planner>) -> Self {
        let port = socket(([127, 0, 0, 1], 0).into());
        let address = port.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (control, controlled) = watch::channel(Control { generation: 0, is_listening: true });
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let recorded = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(address, &ready, controlled, tls, planner, recorded) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Self { address, scheme, requests, control, stop: Some(stop), thread: Some(thread), _port: port }
    }

    /// Drops all connections.
    pub fn drop_connections(&self) {
        self.control.send_modify(|control| control.generation += 1);
    }

    /// Stops listening and drops all connections, or listens again.
    pub fn listen(&self, is_listening: bool) {
        self.control.send_modify(|control| {
            control.generation += u64::from(!is_listening);
            control.is_listening = is_listening;
        });
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Discards the recorded requests, for long runs.
    pub fn clear_requests(&self) {
        self.requests.lock().unwrap().clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn reading(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Arc<Planner> {
    let reply = Arc::new(reply);
    Arc::new(move |_| {
        let reply = Arc::clone(&reply);
        Plan::Read(Box::new(move |request| reply(request)))
    })
}

/// A socket that shares its port within this process, and refuses connections until it listens.
fn socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

async fn accept(
    address: SocketAddr,
    ready: &std::sync::mpsc::Sender<()>,
    mut control: watch::Receiver<Control>,
    tls: Option<TlsAcceptor>,
    planner: Arc<Planner>,
    requests: Arc<Mutex<Vec<Request>>>,
) {
    let mut listener: Option<TcpListener> = None;
    loop {
        let now = *control.borrow_and_update();
        listener = match listener {
            _ if !now.is_listening => None,
            Some(listener) => Some(listener),
            None => Some(socket(address).listen(1024).unwrap()),
        };
        let _ = ready.send(());
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await.unwrap().0,
                None => std::future::pending().await,
            }
        };
        let stream = tokio::select! {
            stream = accepted => stream,
            changed = control.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        stream.set_nodelay(true).unwrap();
        let (tls, planner, requests, mut control) =
            (tls.clone(), Arc::clone(&planner), Arc::clone(&requests), control.clone());
        tokio::spawn(async move {
            let service = |certificate: Option<Vec<u8>>| {
                service_fn(move |request| {
                    let (planner, requests) = (Arc::clone(&planner), Arc::clone(&requests));
                    let certificate = certificate.clone();
                    async move { serve(request, certificate, &*planner, &requests).await }
                })
            };
            let http = hyper::server::conn::http1::Builder::new();
            // Errors are ignored: clients may disconnect.
            let served = async {
                let _ = match tls {
                    None => http.serve_connection(TokioIo::new(stream), service(None)).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => {
                            let chain = stream.get_ref().1.peer_certificates();
                            let certificate = chain.and_then(<[_]>::first).map(|leaf| leaf.to_vec());
                            http.serve_connection(TokioIo::new(stream), service(certificate)).await
                        }
                        Err(_) => Ok(()),
                    },
                };
            };
            tokio::select! {
                () = served => {}
                _ = control.wait_for(|control| control.generation > now.generation) => {}
            }
        });
    }
}

async fn serve(
    request: hyper::Request<Incoming>,
    certificate: Option<Vec<u8>>,
    planner: &Planner,
    requests: &Mutex<Vec<Request>>,
) -> Result<hyper::Response<Scripted>, std::io::Error> {
    let (parts, mut body) = request.into_parts();
    let mut request = Request {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: Bytes::new(),
        certificate,
    };
    let mut reply = match planner(&request) {
        Plan::Read(reply) => {
            request.body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            requests.lock().unwrap().push(request.clone());
            reply(&request)
        }
        Plan::HeadOnly(reply) => {
            requests.lock().unwrap().push(request);
            tokio::spawn(async move {
                let _unread = body;
                std::future::pending::<()>().await;
            });
            reply
        }
        Plan::CutUploadAfter(bytes) => {
            requests.lock().unwrap().push(request);
            let mut read = 0;
            while read < bytes
                && let Some(Ok(frame)) = body.frame().await
            {
                read += frame.data_ref().map_or(0, Bytes::len);
            }
            Reply::Reset
        }
    };
    while let Reply::Later(later) = reply {
        reply = later.await;
    }
    let (status, headers, body) = match reply {
        Reply::Stall => std::future::pending().await,
        Reply::Reset => return Err(std::io::Error::other("reset")),
        Reply::Response(status, headers, body) => (status, headers, Scripted::Whole(Some(body))),
        Reply::Cut(status, headers, body, at) => {
            (status, headers, Scripted::Cut(Some(body.slice(..at)), Flushed::No))
        }
        Reply::StallAfter(status, headers, body, at) => {
            (status, headers, Scripted::Stall(Some(body.slice(..at))))
        }
        Reply::Endless(status, headers) => (status, headers, Scripted::Endless),
        Reply::Stream(status, headers, pieces) => (status, headers, Scripted::Stream(pieces)),
        Reply::Later(_) => unreachable!("awaited above"),
    };
    let mut response = hyper::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(body).unwrap())
}

enum Scripted {
    Whole(Option<Bytes>),
    Cut(Option<Bytes>, Flushed),
    Stall(Option<Bytes>),
    Endless,
    Stream(mpsc::Receiver<Piece>),
}

/// Whether the bytes before a cut were flushed; hyper drops them otherwise.
#[derive(Clone, Copy, PartialEq)]
enum Flushed {
    Yes,
    No,
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Self::Stream(pieces) = &mut *self {
            match std::task::ready!(pieces.poll_recv(context)) {
                Some(Piece::Bytes(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Piece::Cut) => *self = Self::Cut(None, Flushed::No),
                None => return Poll::Ready(None),
            }
        }
        let bytes = match &mut *self {
            Self::Whole(bytes) | Self::Cut(bytes, _) | Self::Stall(bytes) => bytes.take(),
            Self::Endless => Some(Bytes::from_static(&[b' '; 1024])),
            Self::Stream(_) => None,
        };
        match (bytes, &mut *self) {
            (Some(bytes), _) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            (None, Self::Cut(_, Flushed::Yes)) => Poll::Ready(Some(Err(std::io::Error::other("cut")))),
            (None, Self::Cut(_, flushed)) => {
                *flushed = Flushed::Yes;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            (None, Self::Stall(_)) => Poll::Pending,
            (None, _) => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(Some(bytes)) => hyper::body::SizeHint::with_exact(bytes.len() as u64),
            _ => hyper::body::SizeHint::default(),
        }
    }
}
