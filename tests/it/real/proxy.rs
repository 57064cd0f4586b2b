//! What stands between the agent and the cluster: it passes requests on, cuts what it is told to cut, and
//! keeps what was answered. It speaks plain HTTP on loopback, and asks with the rights of the tests.

use std::sync::{Arc, Mutex, MutexGuard};

use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::mpsc;

use super::Cluster;
use crate::daemon::rules;
use crate::fake::kube::{PROTOBUF, User, fixture, kubeconfig, parameters};
use crate::fake::server::Piece;
use crate::fake::{Reply, Seen, Server};

/// What goes wrong with a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is answered as by a server that has no streaming lists.
    CannotStream,
    /// The cluster is asked for pages of so many pods.
    Pages(u32),
    /// The connection is cut after so many bytes of the answer.
    CutAfter(usize),
}

type Rule = rules::Rule<Seen, Fault>;

/// A request, and what came back of it so far.
#[derive(Debug, Clone)]
pub struct Passed {
    pub seen: Seen,
    pub status: u16,
    pub body: Vec<u8>,
}

struct Shared {
    client: kube::Client,
    rules: Mutex<Vec<Rule>>,
    passed: Mutex<Vec<Passed>>,
}

/// A proxy that is running.
pub struct Proxy {
    server: Server,
    shared: Arc<Shared>,
}

impl Passed {
    /// Whether a word is in what came back.
    pub fn has(&self, words: &str) -> bool {
        self.count(words) > 0
    }

    /// How often it is.
    pub fn count(&self, words: &str) -> usize {
        self.body.windows(words.len()).filter(|window| *window == words.as_bytes()).count()
    }

    pub fn parameter(&self, name: &str) -> Option<String> {
        parameters(&self.seen).remove(name)
    }

    /// A list as events.
    pub fn is_streaming_list(&self) -> bool {
        self.parameter("sendInitialEvents").is_some()
    }

    /// The events behind a list.
    pub fn is_watch(&self) -> bool {
        self.parameter("watch").is_some() && !self.is_streaming_list()
    }

    /// A list, or a page of one.
    pub fn is_list(&self) -> bool {
        self.parameter("watch").is_none() && self.seen.path.ends_with("/pods")
    }
}

impl Shared {
    fn passed(&self) -> MutexGuard<'_, Vec<Passed>> {
        self.passed.lock().unwrap()
    }

    fn answer(self: &Arc<Self>, seen: &Seen) -> Reply {
        let fault = self.rules.lock().unwrap().iter().find_map(|rule| rule(seen));
        if let Some(Fault::CannotStream) = fault {
            let body = fixture("status-422-streaming-list.pb");
            self.passed().push(Passed { seen: seen.clone(), status: 422, body: body.clone() });
            return Reply::Answer(422, vec![("content-type", PROTOBUF.into())], body.into());
        }
        let (shared, seen) = (Arc::clone(self), seen.clone());
        Reply::Later(Box::pin(async move { shared.pass(seen, fault).await }))
    }

    async fn pass(self: Arc<Self>, seen: Seen, fault: Option<Fault>) -> Reply {
        let query = match fault {
            Some(Fault::Pages(limit)) => with_limit(&seen.query, limit),
            _ => seen.query.clone(),
        };
        let mut request =
            http::Request::builder().method(seen.method.as_str()).uri(format!("{}?{query}", seen.path));
        if let Some(accept) = seen.headers.get("accept") {
            request = request.header("accept", accept);
        }
        let Ok(answer) = self.client.send(request.body(Body::from(seen.body.to_vec())).unwrap()).await else {
            return Reply::Reset;
        };
        let status = answer.status().as_u16();
        let header = |name: &'static str| Some((name, answer.headers().get(name)?.to_str().ok()?.to_owned()));
        let headers = ["content-type", "retry-after"].into_iter().filter_map(header).collect();
        let number = {
            let mut passed = self.passed();
            passed.push(Passed { seen, status, body: vec![] });
            passed.len() - 1
        };
        let most = match fault {
            Some(Fault::CutAfter(bytes)) => bytes,
            _ => usize::MAX,
        };
        let (pieces, body) = mpsc::channel(16);
        tokio::spawn(self.pump(number, answer.into_body(), most, pieces));
        Reply::Stream(status, headers, body)
    }

    /// Passes an answer on as it comes, until either side goes away.
    async fn pump(self: Arc<Self>, number: usize, mut body: Body, most: usize, pieces: mpsc::Sender<Piece>) {
        let mut left = most;
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
            self.passed()[number].body.extend_from_slice(&bytes);
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

/// A query with another limit, where it has one.
fn with_limit(query: &str, limit: u32) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some(("limit", _)) => format!("limit={limit}"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

impl Proxy {
    pub fn before(cluster: &Cluster) -> Self {
        let shared =
            Arc::new(Shared { client: cluster.client(), rules: Mutex::default(), passed: Mutex::default() });
        let answering = Arc::clone(&shared);
        Self { server: Server::start(move |seen| answering.answer(seen)), shared }
    }

    pub fn kubeconfig(&self) -> String {
        kubeconfig(&self.server.url(), None, &User::Nobody)
    }

    /// One more rule; the first that finds a fault is followed.
    pub fn misbehave(&self, rule: Rule) {
        self.shared.rules.lock().unwrap().push(rule);
    }

    /// Refuses connections, having dropped those that there are, or takes them again.
    pub fn listen(&self, is_listening: bool) {
        self.server.listen(is_listening);
    }

    /// Drops every connection.
    pub fn hang_up(&self) {
        self.server.hang_up();
    }

    /// Every request that was answered, in order.
    pub fn passed(&self) -> Vec<Passed> {
        self.shared.passed().clone()
    }

    /// How many of them are such.
    pub fn count(&self, is: impl Fn(&Passed) -> bool) -> usize {
        self.shared.passed().iter().filter(|passed| is(passed)).count()
    }
}
