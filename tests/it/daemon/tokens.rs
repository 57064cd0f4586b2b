//! Token rotation while the agent runs.

use std::os::unix::fs::symlink;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss, wait_until_in_sync};
use crate::service::bootstrap;
use crate::service::{ADMIN, Database, REPORTER, TestService};

fn web(n: usize) -> crate::daemon::support::cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// The second generation of the bootstrap file, without this token.
fn without(token: &str) -> String {
    bootstrap(2, "").split_inclusive('\n').filter(|line| !line.contains(token)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_stops_reports_until_its_file_is_replaced() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = DaemonBuilder::new(&cluster, &gate).token_file(ADMIN).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    gate.service().reload(&without(ADMIN)).await;
    cluster.add(web(1));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.wait_for_pods(3).await;
    cluster.delete("shop", "job");
    daemon.wait_for_line("401 Unauthorized").await;
    daemon.wait_for_pods(2).await;
    // While the file is empty or missing, the last token is used.
    daemon.write_token("");
    daemon.wait_for_line("it is empty; using the last token").await;
    std::fs::remove_file(daemon.home().join("token")).unwrap();
    daemon.wait_for_line("No such file or directory (os error 2); using the last token").await;
    daemon.write_token(REPORTER);
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.wait_for_line("prod: reported again").await;
    assert_eq!(daemon.count("supercargo_agent_token_rotations_total", "").await, 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_rotation_by_kubelet_symlinks_is_noticed() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    // Kubernetes documentation, "Volumes", projected: the files are symlinks through `..data`, which the kubelet swaps.
    let volume = tempfile::tempdir().unwrap();
    let path = |name: &str| volume.path().join(name);
    let write = |folder: &str, token: &str| {
        std::fs::create_dir(path(folder)).unwrap();
        std::fs::write(path(folder).join("token"), token).unwrap();
        symlink(folder, path("..data_tmp")).unwrap();
        std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
    };
    write("..2026_10_01_10_00_00.1", ADMIN);
    symlink("..data/token", path("token")).unwrap();
    let daemon = DaemonBuilder::new(&cluster, &gate)
        .token("the-file-wins-over-the-variable-0123")
        .env("SUPERCARGO_TOKEN_FILE", path("token").to_str().unwrap())
        .start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    gate.service().reload(&without(ADMIN)).await;
    cluster.add(web(1));
    daemon.wait_for_line("401 Unauthorized").await;
    write("..2026_10_01_11_00_00.2", REPORTER);
    std::fs::remove_dir_all(path("..2026_10_01_10_00_00.1")).unwrap();
    assert_no_loss(&gate, &cluster, PROD).await;
    assert_eq!(gate.reports().last().unwrap().token, REPORTER);
    assert_eq!(daemon.count("supercargo_agent_token_rotations_total", "").await, 1);
    daemon.stop().await;
}
