//! A cluster that runs a shop, with its everyday changes, for tests of API server faults.

use crate::daemon::support::cluster::{ApiRequest, Cluster, Fault, Pod, Rule, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::support::rules::{always, on};
use crate::daemon::{Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::service::{Database, TestService};

/// The `n`th replica of the shop's web server.
pub fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n:05}")).image("registry.example.com/web:1", 'a').owner("ReplicaSet", "web-7d")
}

/// A short-lived Job's pod.
pub fn order(n: usize) -> Pod {
    pod("shop", &format!("order-{n}")).image("registry.example.com/order:1", 'b').owner("Job", "orders")
}

/// A cluster with this many replicas.
pub fn shop(replicas: usize) -> Cluster {
    let cluster = Cluster::start();
    cluster.add_all((1..=replicas).map(web));
    cluster
}

/// A gate in front of a real service.
pub async fn gate_with_service() -> Gate {
    Gate::with_service(TestService::start(Database::sqlite()).await)
}

/// Replaces the containers by one with this digest.
pub fn running(digest: usize) -> impl FnOnce(Pod) -> Pod {
    move |mut pod| {
        pod.containers.clear();
        pod.image("registry.example.com/web:2", digest)
    }
}

/// Adds, changes and deletes pods, and waits for the report of each state.
pub async fn run_orders(cluster: &Cluster, gate: &Gate, orders: impl IntoIterator<Item = usize>) {
    for n in orders {
        cluster.add(order(n));
        cluster.modify("shop", "web-00001", running(n));
        wait_until_in_sync(gate, cluster, PROD).await;
        cluster.delete("shop", &format!("order-{n}"));
        wait_until_in_sync(gate, cluster, PROD).await;
    }
}

/// Starts a daemon with these faults, asserts that orders are still reported, and returns the daemon.
pub async fn start_with_faults(
    cluster: &Cluster,
    gate: &Gate,
    rules: impl IntoIterator<Item = Rule>,
) -> Daemon {
    rules.into_iter().for_each(|rule| cluster.inject(rule));
    let daemon = Daemon::start(cluster, gate);
    run_orders(cluster, gate, 1..=3).await;
    assert_no_loss(gate, cluster, PROD).await;
    daemon
}

/// Disables streaming lists, so that lists are paged.
pub fn without_streaming_lists(cluster: &Cluster) {
    cluster.inject(on(ApiRequest::is_streaming_list, always(Fault::NoStreamingLists)));
}

/// Starts a daemon, and waits until its report is in sync.
pub async fn start_synced(cluster: &Cluster, gate: &Gate, builder: DaemonBuilder) -> Daemon {
    let daemon = builder.start();
    wait_until_in_sync(gate, cluster, PROD).await;
    daemon
}

/// Ends all watches and compacts the history, so that the daemon relists.
pub async fn force_relist(cluster: &Cluster) {
    cluster.listen(false);
    // A late bookmark could carry a resourceVersion after the compaction.
    eventually("no watch is open", async || cluster.open_watches() == 0).await;
    cluster.compact();
    cluster.listen(true);
}
