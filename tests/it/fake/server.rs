//! An HTTP/1 server on loopback, with or without TLS, that keeps what it was sent.

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

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    /// As it came: percent-encoded.
    pub path: String,
    pub query: String,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

/// What to do with it.
pub enum Reply {
    /// An answer with these headers and this body.
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    /// The same, but the connection is cut after so many bytes of the body.
    Cut(u16, Vec<(&'static str, String)>, Bytes, usize),
    /// The same, but nothing follows after so many bytes of the body, for ever.
    StallAfter(u16, Vec<(&'static str, String)>, Bytes, usize),
    /// A body that never ends.
    Endless(u16, Vec<(&'static str, String)>),
    /// Nothing, for ever.
    Stall,
    /// The connection is closed without an answer.
    Reset,
    /// A body that is made while it is sent; it ends when its sender is dropped.
    Stream(u16, Vec<(&'static str, String)>, mpsc::Receiver<Piece>),
    /// What comes of this.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

/// A part of a body that is made while it is sent.
pub enum Piece {
    Bytes(Bytes),
    /// The connection is cut.
    Cut,
}

/// What to do with a request of which only the head was read.
pub enum Plan {
    /// Read its body, and answer then.
    Read(Box<dyn FnOnce(&Seen) -> Reply + Send>),
    /// Answer now; the body is never read, and the connection stays open (RFC 9112, section 9.6).
    HeadOnly(Reply),
    /// Read so many bytes of its body, and cut the connection.
    CutUploadAfter(usize),
}

type Planner = dyn Fn(&Seen) -> Plan + Send + Sync;

/// What is told to a server that runs.
#[derive(Clone, Copy)]
struct Control {
    /// Connections of an older one are dropped.
    generation: u64,
    is_listening: bool,
}

/// A server that is running.
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    control: watch::Sender<Control>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Keeps the port while nobody listens.
    _port: TcpSocket,
}

impl Reply {
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::Answer(status, vec![("content-type", "application/json".into())], body.into())
    }

    pub fn text(status: u16, body: &str) -> Self {
        let headers = vec![("content-type", "text/plain; charset=utf-8".into())];
        Self::Answer(status, headers, Bytes::copy_from_slice(body.as_bytes()))
    }

    /// The same answer with one more header.
    pub fn with(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Answer(status, mut headers, body) => {
                headers.push((name, value.into()));
                Self::Answer(status, headers, body)
            }
            other => other,
        }
    }
}

impl Server {
    pub fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::launch(None, reading(answer))
    }

    pub fn start_hasty(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::launch(None, Arc::new(move |seen| Plan::HeadOnly(answer(seen))))
    }

    pub fn start_tls(
        tls: rustls::ServerConfig,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::launch(Some(TlsAcceptor::from(Arc::new(tls))), reading(answer))
    }

    /// One that looks at a request's head before it decides to read the rest.
    pub fn start_planning(
        tls: Option<rustls::ServerConfig>,
        plan: impl Fn(&Seen) -> Plan + Send + Sync + 'static,
    ) -> Self {
        Self::launch(tls.map(|tls| TlsAcceptor::from(Arc::new(tls))), Arc::new(plan))
    }

    fn launch(tls: Option<TlsAcceptor>, planner: Arc<Planner>) -> Self {
        let port = socket(([127, 0, 0, 1], 0).into());
        let address = port.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (control, controlled) = watch::channel(Control { generation: 0, is_listening: true });
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let keep = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(address, &ready, controlled, tls, planner, keep) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Self { address, scheme, seen, control, stop: Some(stop), thread: Some(thread), _port: port }
    }

    /// Drops every connection.
    pub fn hang_up(&self) {
        self.control.send_modify(|control| control.generation += 1);
    }

    /// Refuses connections, and drops those that there are; or takes them again.
    pub fn listen(&self, is_listening: bool) {
        self.control.send_modify(|control| {
            control.generation += u64::from(!is_listening);
            control.is_listening = is_listening;
        });
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Keeps none of them, for who runs for long.
    pub fn forget(&self) {
        self.seen.lock().unwrap().clear();
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

fn reading(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Arc<Planner> {
    let answer = Arc::new(answer);
    Arc::new(move |_| {
        let answer = Arc::clone(&answer);
        Plan::Read(Box::new(move |seen| answer(seen)))
    })
}

/// A socket that shares its port with others of this process, and refuses connections until it listens.
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
    seen: Arc<Mutex<Vec<Seen>>>,
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
        let (tls, planner, seen, mut control) =
            (tls.clone(), Arc::clone(&planner), Arc::clone(&seen), control.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (planner, seen) = (Arc::clone(&planner), Arc::clone(&seen));
                async move { serve(request, &*planner, &seen).await }
            });
            let http = hyper::server::conn::http1::Builder::new();
            // That a peer goes away is its right.
            let served = async {
                let _ = match tls {
                    None => http.serve_connection(TokioIo::new(stream), service).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
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
    planner: &Planner,
    seen: &Mutex<Vec<Seen>>,
) -> Result<hyper::Response<Scripted>, std::io::Error> {
    let (parts, mut body) = request.into_parts();
    let mut request = Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: Bytes::new(),
    };
    let mut reply = match planner(&request) {
        Plan::Read(answer) => {
            request.body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            seen.lock().unwrap().push(request.clone());
            answer(&request)
        }
        Plan::HeadOnly(reply) => {
            seen.lock().unwrap().push(request);
            tokio::spawn(async move {
                let _unread = body;
                std::future::pending::<()>().await;
            });
            reply
        }
        Plan::CutUploadAfter(bytes) => {
            seen.lock().unwrap().push(request);
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
        Reply::Answer(status, headers, body) => (status, headers, Scripted::Whole(Some(body))),
        Reply::Cut(status, headers, body, at) => {
            (status, headers, Scripted::Cut(Some(body.slice(..at)), Flushed::No))
        }
        Reply::StallAfter(status, headers, body, at) => {
            (status, headers, Scripted::Stall(Some(body.slice(..at))))
        }
        Reply::Endless(status, headers) => (status, headers, Scripted::Endless),
        Reply::Stream(status, headers, pieces) => (status, headers, Scripted::Stream(pieces)),
        Reply::Later(_) => unreachable!("it was waited for"),
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

/// Whether what was written before a cut is on its way: hyper drops it otherwise.
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
        let taken = match &mut *self {
            Self::Whole(bytes) | Self::Cut(bytes, _) | Self::Stall(bytes) => bytes.take(),
            Self::Endless => Some(Bytes::from_static(&[b' '; 1024])),
            Self::Stream(_) => None,
        };
        match (taken, &mut *self) {
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
