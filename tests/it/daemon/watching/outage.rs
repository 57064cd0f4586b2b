//! A pod that starts and ends during a short outage of the service.

use crate::daemon::support::cluster::{Cluster, pod};
use crate::daemon::support::gate::Gate;
use crate::daemon::{
    Daemon, PROD, assert_live_pods_reported, assert_reported_pods_existed, wait_until_all_reported,
    wait_until_in_sync,
};
use crate::service::{Database, TestService};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_after_an_outage() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(pod("shop", "web-1").image("registry.example.com/web:1", 'a').owner("ReplicaSet", "web-7d"));
    let daemon = Daemon::start(&cluster, &gate);
    wait_until_in_sync(&gate, &cluster, PROD).await;
    gate.listen(false);
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.wait_for_line("prod: report failed").await;
    cluster.delete("shop", "job");
    gate.listen(true);
    wait_until_all_reported(&gate, &cluster, PROD).await;
    wait_until_in_sync(&gate, &cluster, PROD).await;
    assert_live_pods_reported(&gate, &cluster, PROD);
    assert_reported_pods_existed(&gate, &cluster, PROD);
    daemon.stop().await;
}
