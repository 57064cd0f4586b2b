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
use tokio::net::TcpListener;
use tokio::sync::oneshot;
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
}

/// When a request is answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// After its body was read.
    Whole,
    /// Before; the body is never read, and the connection stays open (RFC 9112, section 9.6).
    HeadOnly,
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

/// A server that is running.
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
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
        Self::launch(None, Arc::new(answer), Reading::Whole)
    }

    pub fn start_hasty(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::launch(None, Arc::new(answer), Reading::HeadOnly)
    }

    pub fn start_tls(
        tls: rustls::ServerConfig,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::launch(Some(TlsAcceptor::from(Arc::new(tls))), Arc::new(answer), Reading::Whole)
    }

    fn launch(tls: Option<TlsAcceptor>, handler: Arc<Handler>, reading: Reading) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (stop, stopped) = oneshot::channel();
        let keep = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, tls, handler, reading, keep) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, scheme, seen, stop: Some(stop), thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
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

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<Handler>,
    reading: Reading,
    seen: Arc<Mutex<Vec<Seen>>>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, handler, seen) = (tls.clone(), Arc::clone(&handler), Arc::clone(&seen));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                async move { serve(request, &*handler, reading, &seen).await }
            });
            let http = hyper::server::conn::http1::Builder::new();
            // That a peer goes away is its right.
            let _ = match tls {
                None => http.serve_connection(TokioIo::new(stream), service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
                    Err(_) => Ok(()),
                },
            };
        });
    }
}

async fn serve(
    request: hyper::Request<Incoming>,
    handler: &Handler,
    reading: Reading,
    seen: &Mutex<Vec<Seen>>,
) -> Result<hyper::Response<Scripted>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = match reading {
        Reading::Whole => body.collect().await.map_err(std::io::Error::other)?.to_bytes(),
        Reading::HeadOnly => {
            tokio::spawn(async move {
                let _unread = body;
                std::future::pending::<()>().await;
            });
            Bytes::new()
        }
    };
    let request = Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
    };
    seen.lock().unwrap().push(request.clone());
    let (status, headers, body) = match handler(&request) {
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
        let taken = match &mut *self {
            Self::Whole(bytes) | Self::Cut(bytes, _) | Self::Stall(bytes) => bytes.take(),
            Self::Endless => Some(Bytes::from_static(&[b' '; 1024])),
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
