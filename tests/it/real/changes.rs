//! What happens while the agent watches, and while it cannot.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cluster, Namespace, Passed, Proxy, agent, holds, patiently, pod, running, service};
use crate::daemon::gate::Gate;
use crate::daemon::reported::Reported;
use crate::daemon::{Daemon, eventually};

/// A namespace with two pods, and a daemon that has reported them.
async fn watched(gate: &Gate) -> (Cluster, Namespace, Proxy, Daemon) {
    let cluster = Cluster::given().await;
    let namespace = cluster.namespace().await;
    namespace.add_all((1..=2).map(|n| pod(&format!("web-{n}"), "web:1", 'a'))).await;
    let proxy = Proxy::before(&cluster);
    let daemon = agent(&proxy.kubeconfig(), gate).args(["--namespace", &namespace.name]).start();
    holds(gate, "prod", &[&namespace]).await;
    (cluster, namespace, proxy, daemon)
}

fn names(pods: &BTreeSet<Reported>) -> Vec<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn pods_that_start_change_end_and_go_are_reported_as_they_are() {
    let gate = service().await;
    let (_cluster, namespace, proxy, daemon) = watched(&gate).await;
    namespace.add(&pod("cart", "cart:1", 'b').pulling()).await;
    namespace.add(&pod("mail", "mail:1", 'c')).await;
    holds(&gate, "prod", &[&namespace]).await;
    namespace.say(&pod("cart", "cart:1", 'b')).await;
    holds(&gate, "prod", &[&namespace]).await;
    namespace.say(&pod("mail", "mail:1", 'c').succeeded()).await;
    holds(&gate, "prod", &[&namespace]).await;
    namespace.delete("web-1").await;
    holds(&gate, "prod", &[&namespace]).await;
    // The same name, and another pod.
    namespace.delete("web-2").await;
    namespace.add(&pod("web-2", "web:2", 'd')).await;
    holds(&gate, "prod", &[&namespace]).await;
    assert_eq!(names(&gate.last_accepted("prod").unwrap().pods), ["cart", "web-2"]);
    assert_eq!(proxy.count(Passed::is_streaming_list), 1, "all of it by one watch");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn what_was_deleted_while_the_cluster_was_out_of_reach_leaves_the_report() {
    let gate = service().await;
    let (_cluster, namespace, proxy, daemon) = watched(&gate).await;
    proxy.listen(false);
    daemon.says("trying again").await;
    let before = gate.reports().len();
    namespace.delete("web-1").await;
    namespace.add(&pod("cart", "cart:1", 'b')).await;
    proxy.listen(true);
    holds(&gate, "prod", &[&namespace]).await;
    assert_eq!(names(&gate.last_accepted("prod").unwrap().pods), ["cart", "web-2"]);
    // Of the pod that lives on, no report was silent.
    let later = &gate.reports()[before..];
    assert!(later.iter().all(|report| report.pods.iter().any(|pod| pod.name == "web-2")));

    // A connection that is cut costs a watch, and no list.
    let lists = |proxy: &Proxy| proxy.count(|passed| !passed.is_watch());
    let (lists_before, watches) = (lists(&proxy), proxy.count(Passed::is_watch));
    proxy.hang_up();
    namespace.delete("web-2").await;
    holds(&gate, "prod", &[&namespace]).await;
    assert!(proxy.count(Passed::is_watch) > watches);
    assert_eq!(lists(&proxy), lists_before);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn in_a_rollout_the_pods_of_the_new_replica_set_take_the_place_of_the_old_ones() {
    let gate = service().await;
    let cluster = Cluster::given().await;
    let namespace = cluster.namespace().await;
    let (old, new) = (namespace.replica_set("web-1").await, namespace.replica_set("web-2").await);
    let old_pod = |n| pod(&format!("web-1-{n}"), "web:1", 'a').owner("ReplicaSet", &old);
    let new_pod = |n| pod(&format!("web-2-{n}"), "web:2", 'b').owner("ReplicaSet", &new);
    namespace.add_all((1..=3).map(old_pod)).await;
    let daemon = agent(&cluster.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    holds(&gate, "prod", &[&namespace]).await;
    let mut ran = running(&[&namespace]).await;
    for n in 1..=3 {
        namespace.add(&new_pod(n)).await;
        ran.extend(running(&[&namespace]).await);
        namespace.delete(old_pod(n).name()).await;
    }
    holds(&gate, "prod", &[&namespace]).await;
    let report = gate.last_accepted("prod").unwrap();
    assert_eq!(names(&report.pods), ["web-2-1", "web-2-2", "web-2-3"]);
    let body: Value = serde_json::from_slice(&report.body).unwrap();
    for artifact in body["artifacts"].as_array().unwrap() {
        assert_eq!(artifact["owners"][0]["name"], "web-2", "{artifact}");
        assert_eq!(artifact["owners"][0]["uid"], new["metadata"]["uid"], "{artifact}");
    }
    assert!(gate.every_accepted_pod("prod").is_subset(&ran), "nothing was invented");
    assert!(gate.reports().iter().all(|report| report.pods.len() >= 3), "three were there at any time");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn a_job_that_is_over_within_a_second_is_reported_once() {
    let gate = service().await;
    let (_cluster, namespace, _proxy, daemon) = watched(&gate).await;
    let job = pod("job", "job:1", 'e');
    namespace.add(&job).await;
    namespace.say(&job.clone().succeeded()).await;
    namespace.delete("job").await;
    let is_reported = async || names(&gate.every_accepted_pod("prod")).iter().any(|name| name == "job");
    eventually("the Job's pod is reported", is_reported).await;
    holds(&gate, "prod", &[&namespace]).await;
    let reports = gate.accepted("prod");
    let with_it = reports.iter().filter(|report| report.pods.iter().any(|pod| pod.name == "job")).count();
    assert_eq!(with_it, 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn a_quiet_watch_lives_on_the_bookmarks_of_the_server() {
    let gate = Gate::alone();
    let cluster = Cluster::given().await;
    let namespace = cluster.namespace().await;
    namespace.add(&pod("web", "web:1", 'a')).await;
    let proxy = Proxy::before(&cluster);
    // In real time, since the API server's bookmarks come in theirs.
    let daemon = agent(&proxy.kubeconfig(), &gate).hasten(1).args(["--namespace", &namespace.name]).start();
    let has_bookmarks = || {
        proxy.passed().iter().any(|passed| {
            let ends_a_list = passed.count("k8s.io/initial-events-end");
            passed.count("BOOKMARK") >= 2 + ends_a_list
        })
    };
    patiently("two bookmarks come", has_bookmarks).await;
    assert!(daemon.is_ready().await, "{:?}", daemon.readyz().await);
    assert_eq!(proxy.passed().iter().filter(|passed| passed.is_watch()).count() + streams(&proxy), 1);
    assert!(!daemon.said().iter().any(|line| line.contains("withheld")), "{:#?}", daemon.said());
    daemon.stop().await;
}

/// How many streaming lists turned into watches.
fn streams(proxy: &Proxy) -> usize {
    proxy.count(|passed| passed.has("k8s.io/initial-events-end"))
}
