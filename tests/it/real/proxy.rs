//! A proxy between agent and cluster that injects faults and records responses. It listens with plain HTTP on loopback,
//! and forwards requests with the tests' credentials.

use std::sync::{Arc, Mutex, MutexGuard};

use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::mpsc;

use crate::daemon::support::rules;
use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, parameters};
use crate::fake::server::Piece;
use crate::fake::{Reply, Request, Server};
use crate::real::Cluster;

/// A fault of a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Responds like a server without streaming lists.
    CannotStream,
    /// Requests pages of this many pods from the cluster.
    Pages(u32),
    /// Cuts the connection after this many bytes of the response.
    CutAfter(usize),
}

type Rule = rules::Rule<Request, Fault>;

/// A request, and its response so far.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub request: Request,
    pub status: u16,
    pub body: Vec<u8>,
}

struct Shared {
    client: kube::Client,
    rules: Mutex<Vec<Rule>>,
    exchanges: Mutex<Vec<Exchange>>,
}

/// A running proxy.
pub struct Proxy {
    server: Server,
    shared: Arc<Shared>,
}

impl Exchange {
    /// Whether the response contains this text.
    pub fn has(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// Number of occurrences in the response.
    pub fn count(&self, text: &str) -> usize {
        self.body.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }

    pub fn parameter(&self, name: &str) -> Option<String> {
        parameters(&self.request).remove(name)
    }

    /// A list as events, followed by a watch.
    pub fn is_streaming_list(&self) -> bool {
        self.parameter("sendInitialEvents").is_some()
    }

    /// A watch after a list.
    pub fn is_watch(&self) -> bool {
        self.parameter("watch").is_some() && !self.is_streaming_list()
    }

    /// A list or a page.
    pub fn is_list(&self) -> bool {
        self.parameter("watch").is_none() && self.request.path.ends_with("/pods")
    }
}

impl Shared {
    fn exchanges(&self) -> MutexGuard<'_, Vec<Exchange>> {
        self.exchanges.lock().unwrap()
    }

    fn respond(self: &Arc<Self>, request: &Request) -> Reply {
        let fault = self.rules.lock().unwrap().iter().find_map(|rule| rule(request));
        if let Some(Fault::CannotStream) = fault {
            let body = fixture("statuses/422-streaming-list.pb");
            self.exchanges().push(Exchange { request: request.clone(), status: 422, body: body.clone() });
            return Reply::Response(422, vec![("content-type", PROTOBUF.into())], body.into());
        }
        let (shared, request) = (Arc::clone(self), request.clone());
        Reply::Later(Box::pin(async move { shared.forward(request, fault).await }))
    }

    async fn forward(self: Arc<Self>, request: Request, fault: Option<Fault>) -> Reply {
        let query = match fault {
            Some(Fault::Pages(limit)) => with_limit(&request.query, limit),
            _ => request.query.clone(),
        };
        let mut forwarded =
            http::Request::builder().method(request.method.as_str()).uri(format!("{}?{query}", request.path));
        if let Some(accept) = request.headers.get("accept") {
            forwarded = forwarded.header("accept", accept);
        }
        let Ok(response) = self.client.send(forwarded.body(Body::from(request.body.to_vec())).unwrap()).await
        else {
            return Reply::Reset;
        };
        let status = response.status().as_u16();
        let header =
            |name: &'static str| Some((name, response.headers().get(name)?.to_str().ok()?.to_owned()));
        let headers = ["content-type", "retry-after"].into_iter().filter_map(header).collect();
        let number = {
            let mut exchanges = self.exchanges();
            exchanges.push(Exchange { request, status, body: vec![] });
            exchanges.len() - 1
        };
        let max = match fault {
            Some(Fault::CutAfter(bytes)) => bytes,
            _ => usize::MAX,
        };
        let (pieces, body) = mpsc::channel(16);
        tokio::spawn(self.copy_body(number, response.into_body(), max, pieces));
        Reply::Stream(status, headers, body)
    }

    /// Forwards the body until either side closes.
    async fn copy_body(
        self: Arc<Self>,
        number: usize,
        mut body: Body,
        max: usize,
        pieces: mpsc::Sender<Piece>,
    ) {
        let mut left = max;
        loop {
            let frame = tokio::select! {
                () = pieces.closed() => return,
                frame = body.frame() => frame,
            };
            let mut bytes = match frame {
                None => return,
                Some(Err(_)) => break,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            bytes.truncate(left);
            left -= bytes.len();
            self.exchanges()[number].body.extend_from_slice(&bytes);
            if pieces.send(Piece::Bytes(bytes)).await.is_err() {
                return;
            }
            if left == 0 {
                break;
            }
        }
        let _ = pieces.send(Piece::Cut).await;
    }
}

/// Replaces the limit of a query, if any.
fn with_limit(query: &str, limit: u32) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some(("limit", _)) => format!("limit={limit}"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

impl Proxy {
    pub fn start(cluster: &Cluster) -> Self {
        let shared = Arc::new(Shared {
            client: cluster.client(),
            rules: Mutex::default(),
            exchanges: Mutex::default(),
        });
        let responder = Arc::clone(&shared);
        Self { server: Server::start(move |request| responder.respond(request)), shared }
    }

    pub fn kubeconfig(&self) -> String {
        kubeconfig(&self.server.url(), None, &User::Anonymous)
    }

    /// Adds a rule. The first rule that returns a fault applies.
    pub fn inject(&self, rule: Rule) {
        self.shared.rules.lock().unwrap().push(rule);
    }

    /// Stops listening and drops all connections, or listens again.
    pub fn listen(&self, is_listening: bool) {
        self.server.listen(is_listening);
    }

    /// Drops all connections.
    pub fn drop_connections(&self) {
        self.server.drop_connections();
    }

    /// All requests with a response, in order.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.exchanges().clone()
    }

    /// Number of requests that match.
    pub fn count(&self, matches: impl Fn(&Exchange) -> bool) -> usize {
        self.shared.exchanges().iter().filter(|exchange| matches(exchange)).count()
    }
}
