//! Rotation of API server credentials while the daemon runs: token files and credential plugins.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::support::cluster::Cluster;
use crate::daemon::support::shop::{gate_with_service, order, run_orders, shop};
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss};

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
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": { "token": token, "expirationTimestamp": "2026-01-01T00:00:00Z" },
        });
        write(&folder, "credential", &credential.to_string());
    })
    .await;
}
