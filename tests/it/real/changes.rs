//! Changes of pods during the watch, and while the cluster is unreachable.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::daemon::support::gate::Gate;
use crate::daemon::support::reported_pod::ReportedPod;
use crate::daemon::{Daemon, eventually};
use crate::real::{
    Cluster, Exchange, Namespace, Proxy, agent, eventually_in_minutes, pod, running, service,
    wait_until_reported,
};

/// A namespace with two pods, and a daemon that has reported them.
async fn watched(gate: &Gate) -> (Cluster, Namespace, Proxy, Daemon) {
    let cluster = Cluster::from_variable().await;
    let namespace = cluster.namespace().await;
    namespace.add_all((1..=2).map(|n| pod(&format!("web-{n}"), "web:1", 'a'))).await;
    let proxy = Proxy::start(&cluster);
    let daemon = agent(&proxy.kubeconfig(), gate).args(["--namespace", &namespace.name]).start();
    wait_until_reported(gate, "prod", &[&namespace]).await;
    (cluster, namespace, proxy, daemon)
}

fn names(pods: &BTreeSet<ReportedPod>) -> Vec<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn pod_changes_are_reported() {
    let gate = service().await;
    let (_cluster, namespace, proxy, daemon) = watched(&gate).await;
    namespace.add(&pod("cart", "cart:1", 'b').pulling()).await;
    namespace.add(&pod("mail", "mail:1", 'c')).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    namespace.set_status(&pod("cart", "cart:1", 'b')).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    namespace.set_status(&pod("mail", "mail:1", 'c').succeeded()).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    namespace.delete("web-1").await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    // Another pod of the same name.
    namespace.delete("web-2").await;
    namespace.add(&pod("web-2", "web:2", 'd')).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    assert_eq!(names(&gate.last_accepted("prod").unwrap().pods), ["cart", "web-2"]);
    assert_eq!(proxy.count(Exchange::is_streaming_list), 1, "one watch for all changes");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn pod_deleted_while_the_cluster_is_unreachable_leaves_the_report() {
    let gate = service().await;
    let (_cluster, namespace, proxy, daemon) = watched(&gate).await;
    proxy.listen(false);
    daemon.wait_for_line("retrying").await;
    let before = gate.reports().len();
    namespace.delete("web-1").await;
    namespace.add(&pod("cart", "cart:1", 'b')).await;
    proxy.listen(true);
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    assert_eq!(names(&gate.last_accepted("prod").unwrap().pods), ["cart", "web-2"]);
    // Every report has the pod that stays live.
    let later = &gate.reports()[before..];
    assert!(later.iter().all(|report| report.pods.iter().any(|pod| pod.name == "web-2")));

    // A cut connection restarts the watch without a list.
    let lists = |proxy: &Proxy| proxy.count(|exchange| !exchange.is_watch());
    let (lists_before, watches) = (lists(&proxy), proxy.count(Exchange::is_watch));
    proxy.drop_connections();
    namespace.delete("web-2").await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    assert!(proxy.count(Exchange::is_watch) > watches);
    assert_eq!(lists(&proxy), lists_before);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn rollout_replaces_the_pods_of_the_old_replica_set() {
    let gate = service().await;
    let cluster = Cluster::from_variable().await;
    let namespace = cluster.namespace().await;
    let (old, new) = (namespace.replica_set("web-1").await, namespace.replica_set("web-2").await);
    let old_pod = |n| pod(&format!("web-1-{n}"), "web:1", 'a').owner("ReplicaSet", &old);
    let new_pod = |n| pod(&format!("web-2-{n}"), "web:2", 'b').owner("ReplicaSet", &new);
    namespace.add_all((1..=3).map(old_pod)).await;
    let daemon = agent(&cluster.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    let mut ran = running(&[&namespace]).await;
    for n in 1..=3 {
        namespace.add(&new_pod(n)).await;
        ran.extend(running(&[&namespace]).await);
        namespace.delete(old_pod(n).name()).await;
    }
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    let report = gate.last_accepted("prod").unwrap();
    assert_eq!(names(&report.pods), ["web-2-1", "web-2-2", "web-2-3"]);
    let body: Value = serde_json::from_slice(&report.body).unwrap();
    for artifact in body["artifacts"].as_array().unwrap() {
        assert_eq!(artifact["owners"][0]["name"], "web-2", "{artifact}");
        assert_eq!(artifact["owners"][0]["uid"], new["metadata"]["uid"], "{artifact}");
    }
    assert!(gate.every_accepted_pod("prod").is_subset(&ran), "an unknown pod was reported");
    assert!(gate.reports().iter().all(|report| report.pods.len() >= 3), "three pods were live at any time");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn job_of_less_than_a_second_is_reported_once() {
    let gate = service().await;
    let (_cluster, namespace, _proxy, daemon) = watched(&gate).await;
    let job = pod("job", "job:1", 'e');
    namespace.add(&job).await;
    namespace.set_status(&job.clone().succeeded()).await;
    namespace.delete("job").await;
    let is_reported = async || names(&gate.every_accepted_pod("prod")).iter().any(|name| name == "job");
    eventually("the Job's pod is reported", is_reported).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    let reports = gate.accepted("prod");
    let count = reports.iter().filter(|report| report.pods.iter().any(|pod| pod.name == "job")).count();
    assert_eq!(count, 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn quiet_watch_stays_fresh_by_bookmarks() {
    let gate = Gate::without_service();
    let cluster = Cluster::from_variable().await;
    let namespace = cluster.namespace().await;
    namespace.add(&pod("web", "web:1", 'a')).await;
    let proxy = Proxy::start(&cluster);
    // In real time, since the API server sends bookmarks once a minute.
    let daemon =
        agent(&proxy.kubeconfig(), &gate).time_scale(1).args(["--namespace", &namespace.name]).start();
    let has_bookmarks = || {
        proxy.exchanges().iter().any(|exchange| {
            let list_ends = exchange.count("k8s.io/initial-events-end");
            exchange.count("BOOKMARK") >= 2 + list_ends
        })
    };
    eventually_in_minutes("two bookmarks arrive", has_bookmarks).await;
    assert!(daemon.is_ready().await, "{:?}", daemon.readyz().await);
    assert_eq!(proxy.exchanges().iter().filter(|exchange| exchange.is_watch()).count() + streams(&proxy), 1);
    assert!(!daemon.log().iter().any(|line| line.contains("withheld")), "{:#?}", daemon.log());
    daemon.stop().await;
}

/// Number of completed streaming lists.
fn streams(proxy: &Proxy) -> usize {
    proxy.count(|exchange| exchange.has("k8s.io/initial-events-end"))
}
