//! An ordinary day: pods start, change and end, Jobs run, the service is away for a while.

use crate::daemon::cluster::{Cluster, pod};
use crate::daemon::gate::Gate;
use crate::daemon::{
    Daemon, PROD, every_pod_was_reported, holds_what_the_cluster_holds, never_fewer_than_live,
    nothing_was_invented,
};
use crate::service::{Database, Running};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_comes_and_goes_while_the_service_is_down_is_reported() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(pod("shop", "web-1").image("registry.example.com/web:1", 'a').owner("ReplicaSet", "web-7d"));
    let daemon = Daemon::start(&cluster, &gate);
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    gate.listen(false);
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.says("prod: not reported").await;
    cluster.delete("shop", "job");
    gate.listen(true);
    every_pod_was_reported(&gate, &cluster, PROD).await;
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    never_fewer_than_live(&gate, &cluster, PROD);
    nothing_was_invented(&gate, &cluster, PROD);
    daemon.stop().await;
}
