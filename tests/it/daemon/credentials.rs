//! Credentials for the API server that change while the daemon runs, as those of service accounts and
//! cloud plugins do.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::cluster::Cluster;
use crate::daemon::shop::{gate, order, shop, trade};
use crate::daemon::{PROD, Starting, all_holds};

/// A kubeconfig with this user.
fn kubeconfig(cluster: &Cluster, user: &Value) -> String {
    let mut config: Value = serde_json::from_str(&cluster.kubeconfig()).unwrap();
    config["users"][0]["user"] = user.clone();
    config.to_string()
}

/// Puts this into a file of the folder, all at once.
fn write(folder: &TempDir, file: &str, text: &str) {
    let new = folder.path().join("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, folder.path().join(file)).unwrap();
}

/// The API server takes this user's token, then another one, from one moment to the next, and
/// `rotate` brings that one a while later.
async fn survives_rotation(user: &Value, rotate: impl Fn(&str)) {
    let (cluster, gate) = (shop(5), gate().await);
    cluster.require_token("old");
    cluster.keep_watches_open();
    rotate("old");
    let daemon = Starting::between(&cluster, &gate).kubeconfig(&kubeconfig(&cluster, user)).start();
    trade(&cluster, &gate, 1..=1).await;
    // What is open goes on, and what comes next is refused.
    cluster.require_token("new");
    trade(&cluster, &gate, 2..=2).await;
    cluster.end_watches();
    let line = daemon.says("401 Unauthorized").await;
    assert!(line.contains("has the token expired?"), "{line}");
    cluster.add(order(3));
    rotate("new");
    daemon.says("the cluster: back after").await;
    all_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
    assert!(cluster.asked().iter().all(|ask| matches!(ask.token.as_deref(), Some("old" | "new"))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_file_that_rotates_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let user = json!({ "tokenFile": folder.path().join("token") });
    survives_rotation(&user, |token| write(&folder, "token", token)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_whose_credential_has_expired_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/cat",
        "args": [folder.path().join("credential")],
        "interactiveMode": "Never",
    }});
    survives_rotation(&user, |token| {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": { "token": token, "expirationTimestamp": "2026-01-01T00:00:00Z" },
        });
        write(&folder, "credential", &credential.to_string());
    })
    .await;
}
