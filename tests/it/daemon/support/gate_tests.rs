//! Tests of the gate, the invariants and the metrics parser, without a daemon.

use std::time::Duration;

use serde_json::json;

use crate::daemon::support::cluster::{Cluster, Pod, pod};
use crate::daemon::support::gate::{Fault, Gate, hold};
use crate::daemon::support::process::parse;
use crate::daemon::support::rules::{always, every_nth, first_n};
use crate::daemon::{
    PROD, assert_live_pods_reported, assert_reported_pods_existed, eventually, wait_until_in_sync,
};
use crate::program::{Outcome, once};
use crate::service::{ADMIN, Database, TestService};

fn shop() -> Cluster {
    let cluster = Cluster::start();
    cluster.add_all((1..=3).map(|n| {
        let name = format!("web-{n}");
        pod("shop", &name).image("registry.example.com/web:1", 'a').owner("ReplicaSet", "web-7d")
    }));
    cluster.add(
        pod("shop", "mesh")
            .image("registry.example.com/a|b:1", 'b')
            .init_image("registry.example.com/a:1", 'c'),
    );
    cluster
}

/// `supercargo agent --once`.
async fn report(cluster: &Cluster, gate: &Gate, token: &str) -> Outcome {
    report_within("30s", cluster, gate, token).await
}

async fn report_within(timeout: &str, cluster: &Cluster, gate: &Gate, token: &str) -> Outcome {
    let program = once()
        .args(["--environment", "prod", "--create", "--timeout", timeout])
        .kubeconfig(&cluster.kubeconfig())
        .env("SUPERCARGO_BASE_URL", &gate.url())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", token);
    tokio::task::spawn_blocking(move || program.run()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_forwards_reports_to_the_service_and_records_them() {
    let (cluster, gate) = (shop(), Gate::with_service(TestService::start(Database::sqlite()).await));
    report(&cluster, &gate, ADMIN).await.expect(0, &[]);
    wait_until_in_sync(&gate, &cluster, PROD).await;
    cluster.modify("shop", "web-1", Pod::ended);
    cluster.delete("shop", "web-2");
    report(&cluster, &gate, ADMIN).await.expect(0, &[]);
    wait_until_in_sync(&gate, &cluster, PROD).await;
    report(&cluster, &gate, "someone").await.expect(3, &["401"]);
    let statuses: Vec<_> = gate.reports().iter().map(|report| report.status).collect();
    assert_eq!(statuses, [Some(201), Some(200), Some(401)]);
    assert_eq!(gate.reports()[2].token, "someone");
    assert_eq!(gate.accepted("prod").len(), 2);
    assert_eq!(gate.every_accepted_pod("prod").len(), 4);
    assert_eq!(gate.last_accepted("prod").unwrap().pods.len(), 2);
    crate::daemon::wait_until_all_reported(&gate, &cluster, PROD).await;
    assert_live_pods_reported(&gate, &cluster, PROD);
    assert_reported_pods_existed(&gate, &cluster, PROD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_injects_each_fault() {
    let (cluster, gate) = (shop(), Gate::without_service());
    for (fault, texts) in [
        (Fault::Status(429, Some(0)), "429 Too Many Requests: injected 429"),
        (Fault::Status(500, None), "500 Internal Server Error"),
        (Fault::Reset, "retrying"),
        (Fault::CutUploadAfter(10), "retrying"),
        (Fault::AcceptThenReset, "retrying"),
    ] {
        let before = gate.accepted("prod").len();
        gate.inject(first_n(1, fault.clone()));
        let outcome = report(&cluster, &gate, ADMIN).await;
        outcome.expect(0, &[texts]);
        gate.clear_faults();
        let attempts = if matches!(fault, Fault::AcceptThenReset) { 2 } else { 1 };
        assert_eq!(gate.accepted("prod").len(), before + attempts, "{fault:?}");
    }
    gate.inject(always(Fault::EarlyStatus(413)));
    report(&cluster, &gate, ADMIN).await.expect(5, &["413"]);
    gate.clear_faults();
    gate.inject(always(Fault::Stall));
    report_within("1s", &cluster, &gate, ADMIN).await.expect(6, &[]);
    gate.clear_faults();
    gate.accept_only("new");
    report(&cluster, &gate, ADMIN).await.expect(3, &["401"]);
    report(&cluster, &gate, "new").await.expect(0, &[]);
    gate.clear_faults();
    gate.inject(always(Fault::NewSnapshot));
    report(&cluster, &gate, ADMIN).await.expect(0, &[]);
    assert_eq!(gate.reports().last().unwrap().status, Some(201));
    gate.clear_faults();
    gate.listen(false);
    report_within("1s", &cluster, &gate, ADMIN).await.expect(6, &["refused"]);
    gate.listen(true);
    gate.inject(every_nth(2, Fault::AcceptAfter(Duration::from_millis(1))));
    report(&cluster, &gate, ADMIN).await.expect(0, &[]);
    gate.clear_faults();

    let (fault, hold) = hold();
    gate.inject(first_n(1, fault));
    let before = gate.reports().len();
    let (outcome, ()) = tokio::join!(report(&cluster, &gate, ADMIN), async {
        eventually("the response is delayed", async || {
            gate.reports().get(before).is_some_and(|report| report.is_accepted && report.status.is_none())
        })
        .await;
        hold.release();
    });
    outcome.expect(0, &[]);
    assert_eq!(gate.reports()[before].status, Some(200));
}

/// Sends a hand-made report.
async fn put(gate: &Gate, pods: impl IntoIterator<Item = (&str, i64, char)>) {
    let artifact = |(name, created, digit): (&str, i64, char)| {
        let digests = json!({"registry.example.com/web:1": digit.to_string().repeat(64)});
        json!({"podName": name, "namespace": "shop", "creationTimestamp": created, "digests": digests, "owners": []})
    };
    let artifacts: Vec<_> = pods.into_iter().map(artifact).collect();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v2/environments/acme/prod/report/K8S?create=true", gate.url());
    let body = json!({"type": "K8S", "artifacts": artifacts}).to_string();
    assert_eq!(http.put(url).body(body).send().await.unwrap().status(), 201);
}

/// A cluster with one pod, which was reported.
async fn one_pod() -> (Cluster, Gate) {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a').created(7));
    report(&cluster, &gate, ADMIN).await.expect(0, &[]);
    (cluster, gate)
}

#[tokio::test]
#[should_panic(expected = "lacks")]
async fn report_without_a_live_pod_fails() {
    let (cluster, gate) = one_pod().await;
    assert_live_pods_reported(&gate, &cluster, PROD);
    put(&gate, []).await;
    assert_live_pods_reported(&gate, &cluster, PROD);
}

#[tokio::test]
#[should_panic(expected = "report 2 of 3 lacks")]
async fn report_without_a_previously_reported_pod_fails() {
    let (cluster, gate) = one_pod().await;
    cluster.add(pod("shop", "web-2").image("registry.example.com/web:1", 'b').created(8));
    // The first report may lack the second pod; the third must not.
    put(&gate, [("web", 7, 'a'), ("web-2", 8, 'b')]).await;
    put(&gate, [("web", 7, 'a')]).await;
    assert_live_pods_reported(&gate, &cluster, PROD);
}

#[tokio::test]
#[should_panic(expected = "report 1 has")]
async fn report_with_a_digest_that_never_ran_fails() {
    let (cluster, gate) = one_pod().await;
    assert_reported_pods_existed(&gate, &cluster, PROD);
    put(&gate, [("web", 7, 'b')]).await;
    assert_reported_pods_existed(&gate, &cluster, PROD);
}

#[tokio::test]
#[should_panic(expected = "is a duplicate")]
async fn report_with_a_duplicate_pod_fails() {
    let gate = Gate::without_service();
    put(&gate, [("web", 7, 'b'), ("web", 7, 'b')]).await;
    gate.reports();
}

#[test]
fn metrics_are_parsed_by_name_and_labels() {
    let page = "# HELP a b\n# TYPE a counter\na_total{x=\"1 2\",y=\"z\"} 3\nb 1.5\n# EOF\n";
    let metrics = parse(page);
    assert_eq!(
        metrics.into_iter().collect::<Vec<_>>(),
        [("a_total{x=\"1 2\",y=\"z\"}".into(), 3.0), ("b".into(), 1.5)]
    );
}
