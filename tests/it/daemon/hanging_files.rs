//! Token files whose read hangs while the daemon runs.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::daemon::support::cluster::{Cluster, Pod, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{DaemonBuilder, PROD, wait_until_in_sync};
use crate::service::ADMIN;

fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// Replaces a file by one whose read hangs, as on a mount whose server is gone: each open of this device creates a
/// terminal that nobody writes to (pts(4)).
fn hang(file: &Path) {
    let link = file.with_extension("link");
    symlink("/dev/ptmx", &link).unwrap();
    std::fs::rename(link, file).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_uses_the_last_token_of_the_cluster_while_reading_its_file_hangs() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(web(0));
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "first").unwrap();
    let user = json!({ "tokenFile": token });
    let kubeconfig = cluster.kubeconfig().replace(r#""user":{}"#, &format!(r#""user":{user}"#));
    cluster.require_token("first");
    let daemon = DaemonBuilder::new(&cluster, &gate).kubeconfig(&kubeconfig).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    hang(&token);
    cluster.end_watches();
    cluster.add(web(1));
    daemon.wait_for_line("token\": timed out after 100ms; using the last token").await;
    wait_until_in_sync(&gate, &cluster, PROD).await;
    assert_eq!(daemon.livez().await.0, 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_uses_the_last_token_of_the_service_while_reading_its_file_hangs() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(web(0));
    let daemon = DaemonBuilder::new(&cluster, &gate).token_file(ADMIN).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    hang(&daemon.home().join("token"));
    cluster.add(web(1));
    let line = daemon.wait_for_line("timed out after 100ms; using the last token").await;
    assert!(line.contains("failed to read the token file") && line.contains("/token\""), "{line}");
    wait_until_in_sync(&gate, &cluster, PROD).await;
    assert_eq!(daemon.livez().await.0, 200);
}
