//! A cluster in which a shop runs, and what happens there on any day: for the tests of what an API
//! server does meanwhile.

use crate::daemon::cluster::{Ask, Cluster, Fault, Pod, Rule, pod};
use crate::daemon::gate::Gate;
use crate::daemon::rules::{always, on};
use crate::daemon::{Daemon, PROD, Starting, all_holds, eventually, holds_what_the_cluster_holds};
use crate::service::{Database, Running};

/// The `n`th replica of the shop's front.
pub fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n:05}")).image("registry.example.com/web:1", 'a').owner("ReplicaSet", "web-7d")
}

/// One that lives for a moment.
pub fn order(n: usize) -> Pod {
    pod("shop", &format!("order-{n}")).image("registry.example.com/order:1", 'b').owner("Job", "orders")
}

/// A cluster with so many replicas.
pub fn shop(replicas: usize) -> Cluster {
    let cluster = Cluster::start();
    cluster.add_all((1..=replicas).map(web));
    cluster
}

/// The gate before a service that behaves.
pub async fn gate() -> Gate {
    Gate::before(Running::start(Database::sqlite()).await)
}

/// Whatever it ran, it runs this now.
pub fn running(digest: usize) -> impl FnOnce(Pod) -> Pod {
    move |mut pod| {
        pod.containers.clear();
        pod.image("registry.example.com/web:2", digest)
    }
}

/// Pods come, change and go, and each is reported before something happens to it.
pub async fn trade(cluster: &Cluster, gate: &Gate, orders: impl IntoIterator<Item = usize>) {
    for n in orders {
        cluster.add(order(n));
        cluster.modify("shop", "web-00001", running(n));
        holds_what_the_cluster_holds(gate, cluster, PROD).await;
        cluster.delete("shop", &format!("order-{n}"));
        holds_what_the_cluster_holds(gate, cluster, PROD).await;
    }
}

/// Trade goes on although requests meet these faults, from the first one on; the daemon, for what
/// it has to say.
pub async fn survive(cluster: &Cluster, gate: &Gate, rules: impl IntoIterator<Item = Rule>) -> Daemon {
    rules.into_iter().for_each(|rule| cluster.misbehave(rule));
    let daemon = Daemon::start(cluster, gate);
    trade(cluster, gate, 1..=3).await;
    all_holds(gate, cluster, PROD).await;
    daemon
}

/// Has every list from now on read in pages.
pub fn without_streaming_lists(cluster: &Cluster) {
    cluster.misbehave(on(Ask::is_streaming_list, always(Fault::NoStreamingLists)));
}

/// A daemon that has reported what there is.
pub async fn at_rest(cluster: &Cluster, gate: &Gate, starting: Starting) -> Daemon {
    let daemon = starting.start();
    holds_what_the_cluster_holds(gate, cluster, PROD).await;
    daemon
}

/// What is open ends, and what comes next is a list, since nothing older is known.
pub async fn force_a_list(cluster: &Cluster) {
    cluster.listen(false);
    // A bookmark on the way could lead beyond what is forgotten.
    eventually("no watch is open", async || cluster.open_watches() == 0).await;
    cluster.compact();
    cluster.listen(true);
}
