//! The first list: streamed, paged, interrupted, and compared with kubectl.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::daemon::support::gate::Gate;
use crate::daemon::support::rules::{always, first_n, on};
use crate::program::{Outcome, Program, once};
use crate::real::{Cluster, Exchange, Fault, Namespace, Proxy, agent, pod, service, wait_until_reported};

/// Pods in each state that reports distinguish, and two with a common owner.
async fn shop(cluster: &Cluster) -> Namespace {
    let namespace = cluster.namespace().await;
    let owner = namespace.replica_set("web-7d").await;
    namespace
        .add_all((1..=2).map(|n| pod(&format!("web-{n}"), "web:1", 'a').owner("ReplicaSet", &owner)))
        .await;
    namespace.add_all((1..=6).map(|n| pod(&format!("cart-{n}"), "cart:1", 'b'))).await;
    namespace.add(&pod("pulling", "late:1", 'c').pulling()).await;
    namespace.add(&pod("over", "job:1", 'd').succeeded()).await;
    // A pod without a status from a kubelet.
    namespace.create_object("pods", &pod("new", "new:1", 'e').manifest()).await;
    namespace
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn first_list_is_streamed_if_the_server_supports_it() {
    let (cluster, gate) = (Cluster::from_variable().await, service().await);
    let namespace = shop(&cluster).await;
    let proxy = Proxy::start(&cluster);
    let daemon = agent(&proxy.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    assert_eq!(gate.last_accepted("prod").unwrap().pods.len(), 8);

    let exchanges = proxy.exchanges();
    assert!(exchanges[0].is_streaming_list(), "{:?}", exchanges[0].request);
    let can_stream = cluster.can_stream(&namespace).await;
    assert_eq!(exchanges[0].has("k8s.io/initial-events-end"), can_stream);
    assert_eq!(proxy.count(Exchange::is_list), usize::from(!can_stream));
    namespace.add(&pod("after", "web:2", 'f')).await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn server_without_streaming_lists_is_listed_in_pages() {
    let (cluster, gate) = (Cluster::from_variable().await, service().await);
    let namespace = shop(&cluster).await;
    let proxy = Proxy::start(&cluster);
    proxy.inject(on(|request| request.query.contains("sendInitialEvents"), always(Fault::CannotStream)));
    proxy.inject(always(Fault::Pages(3)));
    let daemon = agent(&proxy.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    wait_until_reported(&gate, "prod", &[&namespace]).await;

    let pages: Vec<_> = proxy.exchanges().into_iter().filter(Exchange::is_list).collect();
    assert_eq!(pages.len(), 4, "eleven pods in pages of three");
    assert!(pages[0].parameter("continue").is_none());
    assert!(pages[1..].iter().all(|page| page.parameter("continue").is_some() && page.status == 200));
    namespace.delete("web-1").await;
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    assert_eq!(proxy.count(Exchange::is_streaming_list), 1);
    assert_eq!(proxy.count(Exchange::is_list), 4, "a watch follows the list");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn interrupted_list_is_restarted_and_never_reported() {
    let (cluster, gate) = (Cluster::from_variable().await, service().await);
    let namespace = shop(&cluster).await;
    let proxy = Proxy::start(&cluster);
    // Within the first pod, and after it.
    proxy.inject(first_n(1, Fault::CutAfter(300)));
    proxy.inject(first_n(2, Fault::CutAfter(4_000)));
    let daemon = agent(&proxy.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    assert!(proxy.exchanges().len() > 3);
    assert!(gate.reports().iter().all(|report| report.pods.len() == 8));
    daemon.stop().await;
}

/// A dry run for one namespace.
fn dry_run(namespace: &Namespace) -> Program {
    once().args(["--dry-run", "--environment", "prod", "--namespace", &namespace.name])
}

async fn run(program: Program) -> Outcome {
    tokio::task::spawn_blocking(move || program.run()).await.unwrap()
}

/// The output of `kubectl get pods -o json`, or the same list from the API if kubectl is missing.
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
    // The API server omits `apiVersion` and `kind` of list items.
    for pod in list["items"].as_array_mut().unwrap() {
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
    }
    list.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: SUPERCARGO_TEST_KUBECONFIG=…"]
async fn list_watch_and_kubectl_give_the_same_report() {
    let (cluster, gate) = (Cluster::from_variable().await, Gate::without_service());
    let namespace = shop(&cluster).await;
    let pods = kubectl(&cluster, &namespace).await;
    let from_kubectl = run(dry_run(&namespace).args(["--pods-from", "-"]).stdin(pods)).await;
    from_kubectl.expect(0, &["8 pods", "1 pod ended"]);

    let proxy = Proxy::start(&cluster);
    proxy.inject(always(Fault::Pages(3)));
    for (kubeconfig, case) in [(cluster.kubeconfig(), "at once"), (proxy.kubeconfig(), "in pages")] {
        let listed = run(dry_run(&namespace).kubeconfig(&kubeconfig)).await;
        listed.expect(0, &["8 pods"]);
        assert_eq!(listed.stdout, from_kubectl.stdout, "{case}");
    }
    assert!(proxy.exchanges().len() > 3, "in pages");

    let daemon = agent(&cluster.kubeconfig(), &gate).args(["--namespace", &namespace.name]).start();
    wait_until_reported(&gate, "prod", &[&namespace]).await;
    let reported = gate.last_accepted("prod").unwrap().body;
    assert_eq!(String::from_utf8_lossy(&reported), from_kubectl.stdout.trim_end());
    daemon.stop().await;
}
