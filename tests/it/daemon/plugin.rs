//! A credential plugin that hangs while the daemon runs.

use std::os::unix::fs::PermissionsExt;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{DaemonBuilder, PROD, eventually, wait_until_in_sync};

/// Prints the content of `token` as an already expired credential. Hangs while the file `hang` exists, and then creates
/// `hangs`.
const PLUGIN: &str = r#"#!/bin/sh
while [ -e hang ]; do touch hangs; sleep 0.02; done
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status":
  {"token": "%s", "expirationTimestamp": "2020-01-01T00:00:00Z"}}' "$(cat token)"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_plugin_blocks_no_probe_or_report_and_its_next_token_is_used() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a'));
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    std::fs::write(file("plugin"), PLUGIN).unwrap();
    std::fs::set_permissions(file("plugin"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(file("token"), "first").unwrap();
    let plugin = serde_json::json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", format!("cd '{}' && ./plugin", home.path().display())],
        "interactiveMode": "Never",
    }});
    let kubeconfig = cluster.kubeconfig().replace(r#""user":{}"#, &format!(r#""user":{plugin}"#));
    cluster.require_token("first");
    let builder = DaemonBuilder::new(&cluster, &gate).env("PATH", "/usr/bin:/bin");
    let daemon = builder.kubeconfig(&kubeconfig).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;

    std::fs::write(file("hang"), "").unwrap();
    cluster.end_watches();
    eventually("the plugin hangs", async || file("hangs").exists()).await;
    let reports = gate.reports().len();
    eventually("reports go on", async || gate.reports().len() > reports).await;
    assert_eq!(daemon.livez().await.0, 200);

    cluster.require_token("second");
    std::fs::write(file("token"), "second").unwrap();
    cluster.delete("shop", "web");
    cluster.add(pod("shop", "cart").image("registry.example.com/cart:1", 'b'));
    std::fs::remove_file(file("hang")).unwrap();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    daemon.stop().await;
}
