//! Rotation of API server credentials while the daemon runs: tokens, certificates, credential plugins and OIDC.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::support::cluster::{ApiRequest, Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::shop::{gate_with_service, order, run_orders, shop};
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::fake::kube::base64;
use crate::fake::pki::{Authority, Identity};
use crate::fake::{Reply, Request, Server};

/// A kubeconfig with this user.
fn kubeconfig(cluster: &Cluster, user: &Value) -> String {
    let mut config: Value = serde_json::from_str(&cluster.kubeconfig()).unwrap();
    config["users"][0]["user"] = user.clone();
    config.to_string()
}

/// Replaces a file in the folder atomically.
fn write(folder: &TempDir, file: &str, text: &str) {
    let new = folder.path().join("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, folder.path().join(file)).unwrap();
}

/// The API server accepts the old token, then only the new one. `rotate` supplies the new token after a delay.
async fn assert_rotation(user: &Value, rotate: impl Fn(&str)) {
    let (cluster, gate) = (shop(5), gate_with_service().await);
    cluster.require_token("old");
    cluster.keep_watches_open();
    rotate("old");
    let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&kubeconfig(&cluster, user)).start();
    run_orders(&cluster, &gate, 1..=1).await;
    // Open watches continue; new requests are rejected.
    cluster.require_token("new");
    run_orders(&cluster, &gate, 2..=2).await;
    cluster.end_watches();
    let line = daemon.wait_for_line("401 Unauthorized").await;
    assert!(line.contains("has the token expired?"), "{line}");
    cluster.add(order(3));
    rotate("new");
    daemon.wait_for_line("the cluster: recovered after").await;
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
    assert!(
        cluster.api_requests().iter().all(|request| matches!(request.token.as_deref(), Some("old" | "new")))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotated_token_file_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let user = json!({ "tokenFile": folder.path().join("token") });
    assert_rotation(&user, |token| write(&folder, "token", token)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credential_plugin_is_rerun_after_expiry() {
    let folder = tempfile::tempdir().unwrap();
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/cat",
        "args": [folder.path().join("credential")],
        "interactiveMode": "Never",
    }});
    assert_rotation(&user, |token| {
        let status = json!({ "token": token, "expirationTimestamp": "2026-01-01T00:00:00Z" });
        write(&folder, "credential", &credential(&status));
    })
    .await;
}

/// The output of a plugin.
fn credential(status: &Value) -> String {
    let version = "client.authentication.k8s.io/v1";
    json!({ "apiVersion": version, "kind": "ExecCredential", "status": status }).to_string()
}

/// A plugin that prints the file `credential`, and writes a line to the file `runs`.
fn counted_plugin(folder: &TempDir) -> Value {
    let script = format!("cd '{}' && echo run >>runs && cat credential", folder.path().display());
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", script],
        "env": [{ "name": "PATH", "value": "/usr/bin:/bin" }],
        "interactiveMode": "Never",
    }})
}

fn runs(folder: &TempDir) -> usize {
    std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credential_plugin_without_an_expiry_is_rerun_after_a_401() {
    let folder = tempfile::tempdir().unwrap();
    assert_rotation(&counted_plugin(&folder), |token| {
        write(&folder, "credential", &credential(&json!({ "token": token })));
    })
    .await;
    assert!(runs(&folder) >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credential_plugin_is_not_rerun_while_its_token_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "credential", &credential(&json!({ "token": "old" })));
    let (cluster, gate) = (shop(3), gate_with_service().await);
    cluster.require_token("old");
    let user = counted_plugin(&folder);
    let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&kubeconfig(&cluster, &user)).start();
    run_orders(&cluster, &gate, 1..=1).await;
    for n in 2..5 {
        let watches = cluster.count(ApiRequest::is_watch);
        cluster.end_watches();
        eventually("another watch", async || cluster.count(ApiRequest::is_watch) > watches).await;
        run_orders(&cluster, &gate, n..=n).await;
    }
    daemon.stop().await;
    assert_eq!(runs(&folder), 1);
}

/// Starts with the first certificate. `rotate` supplies another one, and the API server rejects the first one then.
async fn assert_certificate_rotation(user: &Value, rotate: impl Fn(&Identity)) {
    let (cluster, gate) = (Cluster::start_tls(), gate_with_service().await);
    cluster.add_all((1..=5).map(crate::daemon::support::shop::web));
    let clients = Authority::new();
    let (old, new) = (clients.client("old"), clients.client("new"));
    cluster.require_certificate(&old);
    cluster.keep_watches_open();
    rotate(&old);
    let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&kubeconfig(&cluster, user)).start();
    run_orders(&cluster, &gate, 1..=1).await;
    rotate(&new);
    cluster.require_certificate(&new);
    cluster.end_watches();
    run_orders(&cluster, &gate, 2..=3).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.stop().await;
    let sent: Vec<_> = cluster.api_requests().into_iter().map(|request| request.certificate).collect();
    assert!(sent.iter().all(|sent| *sent == Some(old.der()) || *sent == Some(new.der())));
    assert_eq!((sent.first(), sent.last()), (Some(&Some(old.der())), Some(&Some(new.der()))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_client_certificate_is_reread() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let user = json!({ "client-certificate": path("current.pem"), "client-key": path("current.pem") });
    assert_certificate_rotation(&user, |identity| {
        write(&folder, "current.pem", &format!("{}{}", identity.certificate, identity.key));
    })
    .await;
    // Not written at once.
    let user = json!({ "client-certificate": path("current.crt"), "client-key": path("current.key") });
    assert_certificate_rotation(&user, |identity| {
        write(&folder, "current.crt", &identity.certificate);
        write(&folder, "current.key", &identity.key);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credential_plugin_is_rerun_for_a_certificate_that_expires() {
    let folder = tempfile::tempdir().unwrap();
    assert_certificate_rotation(&counted_plugin(&folder), |identity| {
        let expires = jiff::Timestamp::now() + std::time::Duration::from_secs(1);
        let status = json!({
            "clientCertificateData": identity.certificate,
            "clientKeyData": identity.key,
            "expirationTimestamp": expires.to_string(),
        });
        write(&folder, "credential", &credential(&status));
    })
    .await;
    assert!(runs(&folder) >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credential_plugin_that_fails_after_a_401_leaves_the_last_token() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "credential", &credential(&json!({ "token": "old" })));
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    cluster.require_token("old");
    let user = counted_plugin(&folder);
    let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&kubeconfig(&cluster, &user)).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    cluster.require_token("new");
    std::fs::remove_file(folder.path().join("credential")).unwrap();
    cluster.end_watches();
    let line = daemon.wait_for_line("failed to renew the credentials of the cluster").await;
    assert!(line.contains("the credential plugin failed, exit status: 1; using the last ones"), "{line}");
    cluster.require_token("old");
    cluster.add(pod("shop", "cart").image("registry.example.com/cart:1", 'b'));
    wait_until_in_sync(&gate, &cluster, PROD).await;
    daemon.stop().await;
}

/// An OIDC provider that issues ID tokens for refresh tokens, each of which it accepts once.
struct Provider {
    authority: Authority,
    server: Server,
    issued: Arc<Mutex<Vec<String>>>,
}

/// An ID token that expires at this time.
fn id_token(number: usize, expires: i64) -> String {
    let encode = |json: Value| base64(json.to_string()).replace('+', "-").replace('/', "_").replace('=', "");
    format!("{}.{}.c2ln", encode(json!({ "alg": "none" })), encode(json!({ "exp": expires, "jti": number })))
}

impl Provider {
    /// The first refresh token is `refresh-0`.
    fn start() -> Self {
        let authority = Authority::new();
        let (uses, issued) = (AtomicUsize::new(0), Arc::<Mutex<Vec<String>>>::default());
        let record = Arc::clone(&issued);
        let server = Server::start_tls(authority.server(None), move |request: &Request| {
            let host = request.headers["host"].to_str().unwrap();
            match (request.method.as_str(), request.path.as_str()) {
                ("GET", "/.well-known/openid-configuration") => {
                    let endpoint = format!("https://{host}/token");
                    Reply::json(200, json!({ "token_endpoint": endpoint }).to_string())
                }
                ("POST", "/token") => {
                    let form = String::from_utf8(request.body.to_vec()).unwrap();
                    // Only the form, to which the client falls back.
                    if !form.contains("client_id=agent") || form.contains("client_secret") {
                        return Reply::json(401, r#"{"error":"invalid_client"}"#);
                    }
                    let number = uses.load(Ordering::SeqCst);
                    if !form.contains(&format!("refresh_token=refresh-{number}&")) {
                        return Reply::json(400, r#"{"error":"invalid_grant"}"#);
                    }
                    uses.store(number + 1, Ordering::SeqCst);
                    let token = id_token(number, 4_000_000_000);
                    record.lock().unwrap().push(token.clone());
                    let refresh = format!("refresh-{}", number + 1);
                    Reply::json(200, json!({ "id_token": token, "refresh_token": refresh }).to_string())
                }
                _ => Reply::text(404, "not found"),
            }
        });
        Self { authority, server, issued }
    }

    /// The user of a kubeconfig.
    fn user(&self, id_token: Option<&str>) -> Value {
        let mut config = json!({
            "idp-issuer-url": self.server.url(),
            "idp-certificate-authority-data": base64(self.authority.pem()),
            "client-id": "agent",
            "client-secret": "",
            "refresh-token": "refresh-0",
        });
        if let Some(id_token) = id_token {
            config["id-token"] = id_token.into();
        }
        json!({ "auth-provider": { "name": "oidc", "config": config } })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_or_rejected_id_token_is_replaced_by_the_refresh_token() {
    let (provider, gate) = (Provider::start(), gate_with_service().await);
    for (n, id) in [None, Some(id_token(0, 1_500_000_000)), Some(String::new())].into_iter().enumerate() {
        let provider = if n == 0 { &provider } else { &Provider::start() };
        let cluster = shop(3);
        cluster.require_token(&id_token(0, 4_000_000_000));
        let config = kubeconfig(&cluster, &provider.user(id.as_deref()));
        let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&config).start();
        run_orders(&cluster, &gate, 1..=1).await;
        cluster.require_token(&id_token(1, 4_000_000_000));
        cluster.end_watches();
        run_orders(&cluster, &gate, 2..=2).await;
        // The replaced refresh token is written to the kubeconfig.
        let written = std::fs::read_to_string(daemon.home().join("kubeconfig")).unwrap();
        assert!(written.contains(r#""refresh-token":"refresh-2""#), "{written}");
        let log = daemon.stop().await;
        let issued = provider.issued.lock().unwrap().clone();
        assert!(issued.len() == 2 && !log.iter().any(|line| issued.iter().any(|token| line.contains(token))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refresh_token_that_cannot_be_written_is_kept_in_memory() {
    let (provider, cluster, gate) = (Provider::start(), shop(3), gate_with_service().await);
    cluster.require_token(&id_token(0, 4_000_000_000));
    // The token is not in the text literally.
    let config = kubeconfig(&cluster, &provider.user(None)).replace("refresh-0", "\\u0072efresh-0");
    let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&config).start();
    daemon.wait_for_line("failed to replace the refresh-token in \"kubeconfig\"").await;
    cluster.require_token(&id_token(1, 4_000_000_000));
    run_orders(&cluster, &gate, 1..=1).await;
    cluster.end_watches();
    run_orders(&cluster, &gate, 2..=2).await;
    assert_eq!(std::fs::read_to_string(daemon.home().join("kubeconfig")).unwrap(), config);
    daemon.stop().await;
}
