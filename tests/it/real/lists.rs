//! The first list: streamed, in pages, broken off; and that it says what kubectl shows.

use std::process::{Command, Stdio};

use serde_json::json;

use super::{Cluster, Fault, Namespace, Passed, Proxy, agent, holds, pod, service};
use crate::daemon::gate::Gate;
use crate::daemon::rules::{always, on, the_first};
use crate::program::{Outcome, Program, once};

/// Pods in each state that a report tells apart, and two that one owner owns.
async fn shop(cluster: &Cluster) -> Namespace {
    let namespace = cluster.namespace().await;
    let owner = namespace.replica_set("web-7d").await;
    namespace
        .add_all((1..=2).map(|n| pod(&format!("web-{n}"), "web:1", 'a').owner("ReplicaSet", &owner)))
        .await;
    namespace.add_all((1..=6).map(|n| pod(&format!("cart-{n}"), "cart:1", 'b'))).await;
    namespace.add(&pod("pulling", "late:1", 'c').pulling()).await;
    namespace.add(&pod("over", "job:1", 'd').succeeded()).await;
    // One of which no kubelet has said anything yet.
    namespace.create_object("pods", &pod("new", "new:1", 'e').manifest()).await;
    namespace
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn the_first_list_is_streamed_where_the_server_can_and_paged_where_it_cannot() {
    let (cluster, gate) = (Cluster::given().await, service().await);
    let namespace = shop(&cluster).await;
    let proxy = Proxy::before(&cluster);
    let daemon = agent(&proxy.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    holds(&gate, "prod", &[&namespace]).await;
    assert_eq!(gate.last_accepted("prod").unwrap().pods.len(), 8);

    let passed = proxy.passed();
    assert!(passed[0].is_streaming_list(), "{:?}", passed[0].seen);
    let can_stream = cluster.can_stream(&namespace).await;
    assert_eq!(passed[0].has("k8s.io/initial-events-end"), can_stream);
    assert_eq!(proxy.count(Passed::is_list), usize::from(!can_stream));
    namespace.add(&pod("after", "web:2", 'f')).await;
    holds(&gate, "prod", &[&namespace]).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn a_server_without_streaming_lists_is_listed_in_pages_and_asked_for_one_only_once() {
    let (cluster, gate) = (Cluster::given().await, service().await);
    let namespace = shop(&cluster).await;
    let proxy = Proxy::before(&cluster);
    proxy.misbehave(on(|seen| seen.query.contains("sendInitialEvents"), always(Fault::CannotStream)));
    proxy.misbehave(always(Fault::Pages(3)));
    let daemon = agent(&proxy.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    holds(&gate, "prod", &[&namespace]).await;

    let pages: Vec<_> = proxy.passed().into_iter().filter(Passed::is_list).collect();
    assert_eq!(pages.len(), 4, "eleven pods in pages of three");
    assert!(pages[0].parameter("continue").is_none());
    assert!(pages[1..].iter().all(|page| page.parameter("continue").is_some() && page.status == 200));
    namespace.delete("web-1").await;
    holds(&gate, "prod", &[&namespace]).await;
    assert_eq!(proxy.count(Passed::is_streaming_list), 1);
    assert_eq!(proxy.count(Passed::is_list), 4, "what follows is a watch");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn a_list_that_breaks_off_is_begun_again_and_nothing_is_reported_of_its_half() {
    let (cluster, gate) = (Cluster::given().await, service().await);
    let namespace = shop(&cluster).await;
    let proxy = Proxy::before(&cluster);
    // Somewhere in the first pod, and somewhere behind it.
    proxy.misbehave(the_first(1, Fault::CutAfter(300)));
    proxy.misbehave(the_first(2, Fault::CutAfter(4_000)));
    let daemon = agent(&proxy.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    holds(&gate, "prod", &[&namespace]).await;
    assert!(proxy.passed().len() > 3);
    assert!(gate.reports().iter().all(|report| report.pods.len() == 8));
    daemon.stop().await;
}

/// `--dry-run` of one namespace.
fn dry_run(namespace: &Namespace) -> Program {
    once().args(["--dry-run", "--environment", "prod", "--namespace", &namespace.name])
}

async fn run(program: Program) -> Outcome {
    tokio::task::spawn_blocking(move || program.run()).await.unwrap()
}

/// `kubectl get pods -o json`, or the same list as the API gives it where there is no kubectl.
async fn kubectl(cluster: &Cluster, namespace: &Namespace) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, cluster.kubeconfig()).unwrap();
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(&file).args(["get", "pods", "-o", "json", "-n", &namespace.name]);
    command.stderr(Stdio::inherit());
    if let Ok(output) = command.output() {
        assert!(output.status.success(), "kubectl failed");
        return output.stdout;
    }
    let mut list = namespace.get("pods").await;
    // In a list the API server leaves out what its items are.
    for pod in list["items"].as_array_mut().unwrap() {
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
    }
    list.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn a_list_a_watch_and_what_kubectl_shows_come_to_the_same_bytes() {
    let (cluster, gate) = (Cluster::given().await, Gate::alone());
    let namespace = shop(&cluster).await;
    let shown = kubectl(&cluster, &namespace).await;
    let of_kubectl = run(dry_run(&namespace).args(["--pods-from", "-"]).stdin(shown)).await;
    of_kubectl.says(0, &["8 artifacts", "1 pod ended"]);

    let proxy = Proxy::before(&cluster);
    proxy.misbehave(always(Fault::Pages(3)));
    for (kubeconfig, way) in [(cluster.kubeconfig(), "at once"), (proxy.kubeconfig(), "in pages")] {
        let listed = run(dry_run(&namespace).kubeconfig(&kubeconfig)).await;
        listed.says(0, &["8 artifacts"]);
        assert_eq!(listed.stdout, of_kubectl.stdout, "{way}");
    }
    assert!(proxy.passed().len() > 3, "in pages");

    let daemon = agent(&cluster.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    holds(&gate, "prod", &[&namespace]).await;
    let reported = gate.last_accepted("prod").unwrap().body;
    assert_eq!(String::from_utf8_lossy(&reported), of_kubectl.stdout.trim_end());
    daemon.stop().await;
}
