//! The webhook that the demo's notifications go to, as a receiver of one's own would be.
//!
//! It is at a path that nobody can guess, believes what is signed with its secret and nothing else, and drops
//! what it has heard before.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::DemoError;
use crate::domain::notification::Content;
use crate::process::listener::{self, Bounds};
use crate::service::notify::signature::{ID, SIGNATURE, verify};
use crate::service::random::random;

/// How many notifications wait to be read; who sends more waits with them.
const WAITING: usize = 64;

/// How long a notification may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing comes once all has come.
const QUIET: Duration = Duration::from_millis(20);

/// A webhook that has its address, and hears nothing yet.
pub(super) struct Webhook {
    listener: TcpListener,
    path: String,
    secret: String,
    address: SocketAddr,
    beside: Arc<Beside>,
}

/// Two more receivers at the same address, of what the demo's past tells: a webhook that takes everything, and a chat
/// that does not always answer.
#[derive(Debug, Default)]
pub(super) struct Beside {
    heard: Notify,
    is_down: AtomicBool,
}

impl Beside {
    /// Whether the chat takes what it is sent, from now on.
    pub(super) fn answers(&self, is_up: bool) {
        self.is_down.store(!is_up, Ordering::Relaxed);
    }

    /// Waits until nothing more comes.
    pub(super) async fn quiet(&self) {
        while timeout(QUIET, self.heard.notified()).await.is_ok() {}
    }
}

/// What the webhook was told, in the order in which it came.
pub(super) struct Inbox {
    told: mpsc::Receiver<Told>,
    known: BTreeSet<String>,
}

struct Told {
    id: String,
    content: Content,
}

struct Ear {
    secret: SecretString,
    tell: mpsc::Sender<Told>,
    beside: Arc<Beside>,
}

impl Webhook {
    /// Takes a free port of loopback, and makes a new path and secret.
    pub(super) async fn open() -> Result<Self, DemoError> {
        let listener = listener::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), "").await?;
        let address = listener.local_addr().map_err(DemoError::Address)?;
        let (path, secret) = (format!("/{}", random::<32>()?), random::<32>()?);
        Ok(Self { listener, path, secret, address, beside: Arc::default() })
    }

    /// Its address, which is a credential.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The addresses of those beside it: a webhook, and a chat.
    pub(super) fn urls_beside(&self) -> [String; 2] {
        ["watch", "chat"].map(|name| format!("{}/{name}", self.url()))
    }

    /// Those beside it.
    pub(super) fn beside(&self) -> Arc<Beside> {
        Arc::clone(&self.beside)
    }

    /// What notifications have to be signed with.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// Hears until `shutdown`.
    pub(super) fn hear(self, shutdown: CancellationToken) -> (JoinHandle<()>, Inbox) {
        let (tell, told) = mpsc::channel(WAITING);
        let router = router(&self.path, Ear { secret: self.secret.into(), tell, beside: self.beside });
        let hearing = listener::serve(self.listener, None, router, Bounds::default(), shutdown);
        (tokio::spawn(hearing), Inbox { told, known: BTreeSet::new() })
    }
}

impl Inbox {
    /// The next notification, which has to come now that there is something to be told.
    pub(super) async fn soon(&mut self) -> Result<Content, DemoError> {
        timeout(PATIENCE, self.next()).await.ok().flatten().ok_or(DemoError::Untold(PATIENCE))
    }

    /// The next notification that is not a repeat; `None` once nothing more can come.
    pub(super) async fn next(&mut self) -> Option<Content> {
        loop {
            let Told { id, content } = self.told.recv().await?;
            if self.known.insert(id) {
                return Some(content);
            }
        }
    }
}

fn router(path: &str, ear: Ear) -> Router {
    Router::new()
        .route(path, post(take))
        .route(&format!("{path}/watch"), post(watch))
        .route(&format!("{path}/chat"), post(chat))
        .with_state(Arc::new(ear))
}

/// Takes a notification: it is read only where its signature is right.
async fn take(State(ear): State<Arc<Ear>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let id = header(ID);
    if !verify(&ear.secret, header(SIGNATURE), id, &body) {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(content) = serde_json::from_slice(&body) else { return StatusCode::BAD_REQUEST };
    match ear.tell.send(Told { id: id.to_owned(), content }).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Takes what is signed.
async fn watch(State(ear): State<Arc<Ear>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ear.beside.heard.notify_one();
    if verify(&ear.secret, header(SIGNATURE), header(ID), &body) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::UNAUTHORIZED
    }
}

/// Takes anything, when it does.
async fn chat(State(ear): State<Arc<Ear>>) -> StatusCode {
    ear.beside.heard.notify_one();
    if ear.beside.is_down.load(Ordering::Relaxed) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::NO_CONTENT
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;
    use crate::service::notify::signature::sign;

    const BODY: &str = r#"{"schema_version": 1, "id": "n1", "action": {"number": 1, "name": "a"},
        "trigger": "ON_COMPLIANT_ENV", "occurred_at": 1.5, "organization": "acme", "environment": "storefront",
        "snapshot_index": 1, "compliance": "COMPLIANT", "cause": {"type": "REPORT"}, "artifacts": [],
        "artifacts_total": 0}"#;

    async fn sent(router: &Router, path: &str, id: &str, secret: &str, body: &'static str) -> u16 {
        let signature = sign(&[secret.to_owned().into()], 7, id, body.as_bytes());
        let request = Request::post(path).header(ID, id).header(SIGNATURE, signature);
        let answer = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        answer.status().as_u16()
    }

    #[tokio::test]
    async fn what_is_signed_is_heard_once_and_nothing_else_is() {
        let (tell, told) = mpsc::channel(WAITING);
        let router = router("/here", Ear { secret: "ours".to_owned().into(), tell, beside: Arc::default() });
        let mut inbox = Inbox { told, known: BTreeSet::new() };
        for (path, id, secret, body, status) in [
            ("/here", "n1", "theirs", BODY, 401),
            ("/there", "n1", "ours", BODY, 404),
            ("/here", "n1", "ours", "{}", 400),
            ("/here", "n1", "ours", BODY, 204),
            ("/here", "n1", "ours", BODY, 204),
            ("/here", "n2", "ours", BODY, 204),
        ] {
            assert_eq!(sent(&router, path, id, secret, body).await, status, "{path} {id} {secret}");
        }
        drop(router);
        assert_eq!(inbox.next().await.unwrap().environment, "storefront");
        assert!(inbox.next().await.is_some());
        assert_eq!(inbox.next().await, None);
    }
}
