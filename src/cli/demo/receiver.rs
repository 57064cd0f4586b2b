//! Receives the notifications that the demo's service sends.
//!
//! Serves three targets below an unguessable path: the webhook whose notifications the demo shows, an on-call webhook,
//! and a chat that can be down. Both webhooks reject notifications that are not signed with their secret.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::data::ChatState;
use super::error::Result;
use super::files::Files;
use rules::notification::{Content, EventContent};
use runtime::listener::{self, Bounds};
use service::engine::notify::signature::{ID, SIGNATURE, verify};
use service::random::random;

/// Capacity of the queue of received notifications; further requests wait.
const MAX_QUEUED: usize = 64;

/// Deliveries count as finished when none arrives for this long.
const QUIET_PERIOD: Duration = Duration::from_millis(20);

/// The last segment of each target's path.
const WEBHOOK: &str = "webhook";
const ON_CALL: &str = "on-call";
const CHAT: &str = "chat";

/// A receiver that listens, but does not serve yet.
pub(super) struct Receiver {
    listener: TcpListener,
    path: String,
    pub(super) targets: Arc<Targets>,
    notifications: mpsc::Receiver<Content>,
}

pub(super) struct Targets {
    secret: SecretString,
    notifications: mpsc::Sender<Content>,
    delivered: Notify,
    is_chat_down: AtomicBool,
}

impl Receiver {
    /// Listens on a free port of loopback, and writes the files that the bootstrap file names.
    pub(super) async fn bind(files: &Files) -> Result<Self> {
        let listener = listener::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), "").await?;
        let (path, secret) = (format!("/{}", random::<32>()?), random::<32>()?);
        let address = listener.local_addr()?;
        for target in [WEBHOOK, ON_CALL, CHAT] {
            files.write(&format!("{target}-url"), &format!("http://{address}{path}/{target}\n"))?;
        }
        files.write("webhook-secret", &format!("{secret}\n"))?;
        let (targets, notifications) = Targets::new(secret);
        Ok(Self { listener, path, targets, notifications })
    }

    /// Serves until `shutdown`. Returns the notifications to show.
    pub(super) fn serve(self, shutdown: CancellationToken) -> (JoinHandle<()>, mpsc::Receiver<Content>) {
        let router = router(&self.path, self.targets);
        let serving = listener::serve(self.listener, None, router, Bounds::default(), shutdown);
        (tokio::spawn(serving), self.notifications)
    }
}

impl Targets {
    fn new(secret: String) -> (Arc<Self>, mpsc::Receiver<Content>) {
        let (notifications, receiver) = mpsc::channel(MAX_QUEUED);
        let (delivered, is_chat_down) = (Notify::new(), AtomicBool::new(false));
        let targets = Self { secret: secret.into(), notifications, delivered, is_chat_down };
        (Arc::new(targets), receiver)
    }

    pub(super) fn set_chat(&self, state: ChatState) {
        self.is_chat_down.store(state == ChatState::Down, Ordering::Relaxed);
    }

    /// Waits until no more notifications arrive.
    pub(super) async fn quiet(&self) {
        while timeout(QUIET_PERIOD, self.delivered.notified()).await.is_ok() {}
    }
}

fn router(path: &str, targets: Arc<Targets>) -> Router {
    Router::new().route(&format!("{path}/{{target}}"), post(receive)).with_state(targets)
}

async fn receive(
    State(targets): State<Arc<Targets>>,
    Path(target): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    targets.delivered.notify_one();
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match target.as_str() {
        CHAT if targets.is_chat_down.load(Ordering::Relaxed) => StatusCode::SERVICE_UNAVAILABLE,
        CHAT => StatusCode::NO_CONTENT,
        _ if !verify(&targets.secret, header(SIGNATURE), header(ID), &body) => StatusCode::UNAUTHORIZED,
        WEBHOOK => {
            let content = match serde_json::from_slice(&body) {
                Ok(EventContent::Environment(content)) => content,
                Ok(EventContent::Checkpoint(_) | EventContent::Test(_)) => return StatusCode::NO_CONTENT,
                Err(_) => return StatusCode::BAD_REQUEST,
            };
            match targets.notifications.send(content).await {
                Ok(()) => StatusCode::NO_CONTENT,
                Err(_) => StatusCode::SERVICE_UNAVAILABLE,
            }
        }
        _ => StatusCode::NO_CONTENT,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;
    use service::engine::notify::signature::sign;

    const BODY: &str = r#"{"schema_version": 1, "id": "n1", "action": {"number": 1, "name": "a"},
        "trigger": "ON_COMPLIANT_ENV", "occurred_at": 1.5, "organization": "acme", "environment": "storefront",
        "snapshot_index": 1, "compliance": "COMPLIANT", "cause": {"type": "REPORT"}, "artifacts": [],
        "artifacts_total": 0}"#;

    const TEST: &str = r#"{"schema_version": 1, "id": "n2", "action": {"number": 1, "name": "a"}, "trigger": "ON_TEST",
        "occurred_at": 1.5, "organization": "acme", "tested_by": "ci"}"#;

    async fn send(router: &Router, path: &str, id: &str, secret: &str, body: &'static str) -> u16 {
        let signature = sign(&[secret.to_owned().into()], 7, id, body.as_bytes());
        let request = Request::post(path).header(ID, id).header(SIGNATURE, signature);
        let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        response.status().as_u16()
    }

    #[tokio::test]
    async fn signed_notifications_are_shown_and_others_are_rejected() {
        let (targets, mut notifications) = Targets::new("ours".to_owned());
        let router = router("/path", Arc::clone(&targets));
        for (path, id, secret, body, status) in [
            ("/path/webhook", "n1", "theirs", BODY, 401),
            ("/path/on-call", "n1", "theirs", BODY, 401),
            ("/other/webhook", "n1", "ours", BODY, 404),
            ("/path/webhook", "n1", "ours", "{}", 400),
            ("/path/webhook", "n2", "ours", TEST, 204),
            ("/path/webhook", "n1", "ours", BODY, 204),
            ("/path/on-call", "n3", "ours", BODY, 204),
            ("/path/chat", "n4", "theirs", BODY, 204),
        ] {
            assert_eq!(send(&router, path, id, secret, body).await, status, "{path} {id} {secret}");
        }
        targets.set_chat(ChatState::Down);
        assert_eq!(send(&router, "/path/chat", "n5", "theirs", BODY).await, 503);
        drop((router, targets));
        assert_eq!(notifications.recv().await.unwrap().environment, "storefront");
        assert_eq!(notifications.recv().await, None);
    }
}
