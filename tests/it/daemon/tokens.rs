//! The token changes while the agent runs.

use std::os::unix::fs::symlink;

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::Gate;
use crate::daemon::{PROD, Starting, holds_what_the_cluster_holds, nothing_was_lost};
use crate::service::{ADMIN, Database, REPORTER, Running, bootstrap};

fn web(n: usize) -> crate::daemon::cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// The bootstrap file that follows, without this token.
fn without(token: &str) -> String {
    bootstrap(2, "").split_inclusive('\n').filter(|line| !line.contains(token)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_revoked_holds_reports_back_until_its_file_holds_the_next() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = Starting::between(&cluster, &gate).token_file(ADMIN).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    gate.service().reload(&without(ADMIN)).await;
    cluster.add(web(1));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.hears_of(3).await;
    cluster.delete("shop", "job");
    daemon.says("401 Unauthorized").await;
    daemon.hears_of(2).await;
    // A file that is gone or empty for a moment is no reason to end.
    daemon.write_token("");
    daemon.has_reported("no_token", 1).await;
    std::fs::remove_file(daemon.home().join("token")).unwrap();
    daemon.has_reported("no_token", 2).await;
    daemon.write_token(REPORTER);
    nothing_was_lost(&gate, &cluster, PROD).await;
    daemon.says("prod: reported again").await;
    assert_eq!(daemon.count("supercargo_agent_token_rotations_total", "").await, 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_rotated_as_the_kubelet_does_it() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    // Kubernetes documentation, "Volumes", projected: the files are links through `..data`, which is
    // swapped.
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
    let daemon = Starting::between(&cluster, &gate)
        .token("the-file-wins-over-the-variable-0123")
        .env("SUPERCARGO_TOKEN_FILE", path("token").to_str().unwrap())
        .start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    gate.service().reload(&without(ADMIN)).await;
    cluster.add(web(1));
    daemon.says("401 Unauthorized").await;
    write("..2026_10_01_11_00_00.2", REPORTER);
    std::fs::remove_dir_all(path("..2026_10_01_10_00_00.1")).unwrap();
    nothing_was_lost(&gate, &cluster, PROD).await;
    assert_eq!(gate.reports().last().unwrap().token, REPORTER);
    assert_eq!(daemon.count("supercargo_agent_token_rotations_total", "").await, 1);
    daemon.stop().await;
}
