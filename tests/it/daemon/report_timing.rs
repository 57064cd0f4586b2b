//! Timing of reports: `--interval`, `--debounce`, `--no-departed-pods`.

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::{Gate, hold};
use crate::daemon::support::rules::first_n;
use crate::daemon::{
    Daemon, DaemonBuilder, PROD, assert_live_pods_reported, assert_no_loss, assert_reported_pods_existed,
    eventually, wait_until_in_sync,
};
use crate::service::{Database, TestService};

fn web(n: usize) -> crate::daemon::support::cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// Starts a cluster with one pod, and a daemon that has reported it. The small time scale keeps a busy machine from
/// causing timeouts.
async fn start_synced<'a>(args: impl IntoIterator<Item = &'a str>) -> (Cluster, Gate, Daemon) {
    start_scaled(40, args).await
}

async fn start_scaled<'a>(scale: u32, args: impl IntoIterator<Item = &'a str>) -> (Cluster, Gate, Daemon) {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = DaemonBuilder::new(&cluster, &gate).args(args).time_scale(scale).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    (cluster, gate, daemon)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_departed_pods_option_reports_running_pods_only() {
    let (cluster, gate, daemon) = start_synced(["--no-departed-pods", "--interval", "30s"]).await;
    gate.listen(false);
    cluster.add(web(1));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.wait_for_pods(3).await;
    daemon.wait_for_reports("unreachable", 1).await;
    cluster.delete("shop", "job");
    daemon.wait_for_pods(2).await;
    gate.listen(true);
    wait_until_in_sync(&gate, &cluster, PROD).await;
    let unchanged = daemon.report_count("unchanged").await;
    daemon.wait_for_reports("unchanged", unchanged + 2).await;
    assert_live_pods_reported(&gate, &cluster, PROD);
    assert_reported_pods_existed(&gate, &cluster, PROD);
    assert!(gate.every_accepted_pod("prod").iter().all(|pod| pod.name != "job"));
    daemon.wait_for_line("running pods only").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn burst_of_changes_is_one_report() {
    let (cluster, gate, daemon) = start_scaled(1, ["--interval", "24h", "--debounce", "24h"]).await;
    (1..=50).for_each(|n| cluster.add(web(n)));
    daemon.wait_for_pods(51).await;
    for n in 1..=25 {
        cluster.delete("shop", &format!("web-{n}"));
        cluster.add(web(n));
    }
    daemon.wait_for_departed_pods(25).await;
    // The shutdown ends the debounce.
    daemon.stop().await;
    assert_no_loss(&gate, &cluster, PROD).await;
    let sizes: Vec<_> = gate.reports().iter().map(|report| report.pods.len()).collect();
    // The first report, one with departed pods, and one without.
    assert_eq!(sizes, [1, 76, 51]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_during_a_report_are_combined_in_the_next() {
    // The report that is held must not time out.
    let (cluster, gate, daemon) = start_scaled(1, ["--interval", "24h"]).await;
    let (fault, hold) = hold();
    // The initial reports are complete.
    let before = gate.reports().len();
    gate.inject(first_n(1, fault));
    cluster.add(web(1));
    eventually("a report is in flight", async || gate.reports().len() == before + 1).await;
    for n in 2..=5 {
        cluster.add(web(n));
        daemon.wait_for_pods(n + 1).await;
    }
    cluster.delete("shop", "web-0");
    cluster.delete("shop", "web-1");
    daemon.wait_for_pods(4).await;
    assert_eq!(gate.reports().len(), before + 1);
    hold.release();
    assert_no_loss(&gate, &cluster, PROD).await;
    let sizes: Vec<_> = gate.reports().iter().skip(before).map(|report| report.pods.len()).collect();
    assert_eq!(sizes, [2, 4]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_are_sent_without_changes_and_not_logged() {
    let (cluster, gate, daemon) = start_synced(["--interval", "30s"]).await;
    daemon.wait_for_line("prod: 1 pod reported, new snapshot").await;
    let log = daemon.log();
    daemon.wait_for_reports("unchanged", 4).await;
    assert_eq!(daemon.log(), log);
    assert_no_loss(&gate, &cluster, PROD).await;
    let bodies: std::collections::BTreeSet<_> = gate.reports().into_iter().map(|r| r.body).collect();
    assert_eq!(bodies.len(), 1, "unchanged pods must give the same bytes");
    daemon.stop().await;
}
