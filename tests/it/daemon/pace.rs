//! When reports go out, as it is asked for on the command line.

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::{Gate, hold};
use crate::daemon::rules::the_first;
use crate::daemon::{
    Daemon, PROD, Starting, eventually, holds_what_the_cluster_holds, never_fewer_than_live,
    nothing_was_invented, nothing_was_lost,
};
use crate::service::{Database, Running};

fn web(n: usize) -> crate::daemon::cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// A cluster of one pod, and a service that knows of it. An answer has a fortieth of its time, so that a
/// busy machine is no outage.
async fn day<'a>(args: impl IntoIterator<Item = &'a str>) -> (Cluster, Gate, Daemon) {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = Starting::between(&cluster, &gate).args(args).hasten(40).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    (cluster, gate, daemon)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_witness_a_report_holds_strictly_what_runs() {
    let (cluster, gate, daemon) = day(["--no-witness", "--interval", "30s"]).await;
    gate.listen(false);
    cluster.add(web(1));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.hears_of(3).await;
    daemon.has_reported("unreachable", 1).await;
    cluster.delete("shop", "job");
    daemon.hears_of(2).await;
    gate.listen(true);
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    let unchanged = daemon.reports("unchanged").await;
    daemon.has_reported("unchanged", unchanged + 2).await;
    never_fewer_than_live(&gate, &cluster, PROD);
    nothing_was_invented(&gate, &cluster, PROD);
    assert!(gate.every_accepted_pod("prod").iter().all(|pod| pod.name != "job"));
    daemon.says("strictly what runs").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_changes_makes_one_report() {
    // Three seconds, at a fortieth.
    let (cluster, gate, daemon) = day(["--interval", "24h", "--debounce", "120s"]).await;
    (1..=50).for_each(|n| cluster.add(web(n)));
    daemon.hears_of(51).await;
    for n in 1..=25 {
        cluster.delete("shop", &format!("web-{n}"));
        cluster.add(web(n));
    }
    nothing_was_lost(&gate, &cluster, PROD).await;
    let sizes: Vec<_> = gate.reports().iter().map(|report| report.pods.len()).collect();
    // The first, one with those that came and went, and one without.
    assert_eq!(sizes, [1, 76, 51]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_report_is_under_way_changes_gather_and_the_latest_wins() {
    let (cluster, gate, daemon) = day(["--interval", "24h"]).await;
    let (fault, hold) = hold();
    // Whatever of the first follows, it is over.
    let before = gate.reports().len();
    gate.misbehave(the_first(1, fault));
    cluster.add(web(1));
    eventually("a report is under way", async || gate.reports().len() == before + 1).await;
    for n in 2..=5 {
        cluster.add(web(n));
        daemon.hears_of(n + 1).await;
    }
    cluster.delete("shop", "web-0");
    cluster.delete("shop", "web-1");
    daemon.hears_of(4).await;
    assert_eq!(gate.reports().len(), before + 1);
    hold.let_go();
    nothing_was_lost(&gate, &cluster, PROD).await;
    let sizes: Vec<_> = gate.reports().iter().skip(before).map(|report| report.pods.len()).collect();
    assert_eq!(sizes, [2, 4]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_go_out_without_a_change_and_are_not_worth_a_line() {
    let (cluster, gate, daemon) = day(["--interval", "30s"]).await;
    daemon.says("prod: 1 artifact reported, new snapshot").await;
    let said = daemon.said();
    daemon.has_reported("unchanged", 4).await;
    assert_eq!(daemon.said(), said);
    nothing_was_lost(&gate, &cluster, PROD).await;
    let bodies: std::collections::BTreeSet<_> = gate.reports().into_iter().map(|r| r.body).collect();
    assert_eq!(bodies.len(), 1, "the same pods are the same bytes");
    daemon.stop().await;
}
