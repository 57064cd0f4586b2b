//! The gate and the metrics' reader, before there is a daemon: by one shots, and by hand.

use std::time::Duration;

use serde_json::json;

use super::process::parse;
use super::{PROD, eventually, holds_what_the_cluster_holds, never_fewer_than_live, nothing_was_invented};
use crate::daemon::cluster::{Cluster, Pod, pod};
use crate::daemon::gate::{Fault, Gate, hold};
use crate::daemon::rules::{always, every_nth, the_first};
use crate::program::{Outcome, once};
use crate::service::{ADMIN, Database, Running};

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
        .args(["--environment", "prod", "--timeout", timeout])
        .kubeconfig(&cluster.kubeconfig())
        .env("SUPERCARGO_BASE_URL", &gate.url())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", token);
    tokio::task::spawn_blocking(move || program.run()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_real_service_the_gate_lets_reports_pass_and_keeps_them() {
    let (cluster, gate) = (shop(), Gate::before(Running::start(Database::sqlite()).await));
    report(&cluster, &gate, ADMIN).await.says(0, &[]);
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    cluster.modify("shop", "web-1", Pod::ended);
    cluster.delete("shop", "web-2");
    report(&cluster, &gate, ADMIN).await.says(0, &[]);
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    report(&cluster, &gate, "someone").await.says(3, &["401"]);
    let told: Vec<_> = gate.reports().iter().map(|report| report.told).collect();
    assert_eq!(told, [Some(201), Some(200), Some(401)]);
    assert_eq!(gate.reports()[2].token, "someone");
    assert_eq!(gate.accepted("prod").len(), 2);
    assert_eq!(gate.every_accepted_pod("prod").len(), 4);
    assert_eq!(gate.last_accepted("prod").unwrap().pods.len(), 2);
    super::every_pod_was_reported(&gate, &cluster, PROD).await;
    never_fewer_than_live(&gate, &cluster, PROD);
    nothing_was_invented(&gate, &cluster, PROD);
    gate.forget();
    assert_eq!(gate.every_accepted_pod("prod").len(), 0, "the last report was not accepted");
    assert_eq!(gate.reports().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_misbehaves_as_it_is_told() {
    let (cluster, gate) = (shop(), Gate::alone());
    for (fault, words) in [
        (Fault::Says(429, Some(0)), "429 Too Many Requests: the gate says 429"),
        (Fault::Says(500, None), "500 Internal Server Error"),
        (Fault::Reset, "trying again"),
        (Fault::CutUploadAfter(10), "trying again"),
        (Fault::TakenThenCut, "trying again"),
    ] {
        let before = gate.accepted("prod").len();
        gate.misbehave(the_first(1, fault.clone()));
        let outcome = report(&cluster, &gate, ADMIN).await;
        outcome.says(0, &[words]);
        gate.behave();
        let taken = if matches!(fault, Fault::TakenThenCut) { 2 } else { 1 };
        assert_eq!(gate.accepted("prod").len(), before + taken, "{fault:?}");
    }
    gate.misbehave(always(Fault::SaysAtOnce(413)));
    report(&cluster, &gate, ADMIN).await.says(5, &["413"]);
    gate.behave();
    gate.misbehave(always(Fault::Stall));
    report_within("1s", &cluster, &gate, ADMIN).await.says(6, &[]);
    gate.behave();
    gate.accept_only("new");
    report(&cluster, &gate, ADMIN).await.says(3, &["401"]);
    report(&cluster, &gate, "new").await.says(0, &[]);
    gate.behave();
    gate.misbehave(always(Fault::NewSnapshot));
    report(&cluster, &gate, ADMIN).await.says(0, &[]);
    assert_eq!(gate.reports().last().unwrap().told, Some(201));
    gate.behave();
    gate.listen(false);
    report_within("1s", &cluster, &gate, ADMIN).await.says(6, &["refused"]);
    gate.listen(true);
    gate.misbehave(every_nth(2, Fault::After(Duration::from_millis(1))));
    report(&cluster, &gate, ADMIN).await.says(0, &[]);
    gate.behave();

    let (fault, hold) = hold();
    gate.misbehave(the_first(1, fault));
    let before = gate.reports().len();
    let (outcome, ()) = tokio::join!(report(&cluster, &gate, ADMIN), async {
        eventually("it is held", async || {
            gate.reports().get(before).is_some_and(|report| report.is_accepted && report.told.is_none())
        })
        .await;
        hold.let_go();
    });
    outcome.says(0, &[]);
    assert_eq!(gate.reports()[before].told, Some(200));
}

/// A report that somebody made up.
async fn put(gate: &Gate, pods: impl IntoIterator<Item = (&str, i64, char)>) {
    let artifact = |(name, created, digit): (&str, i64, char)| {
        let digests = json!({"registry.example.com/web:1": digit.to_string().repeat(64)});
        json!({"podName": name, "namespace": "shop", "creationTimestamp": created, "digests": digests, "owners": []})
    };
    let artifacts: Vec<_> = pods.into_iter().map(artifact).collect();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v2/environments/acme/prod/report/K8S", gate.url());
    let body = json!({"type": "K8S", "artifacts": artifacts}).to_string();
    assert_eq!(http.put(url).body(body).send().await.unwrap().status(), 201);
}

/// A cluster of which somebody has read the one pod.
async fn one_pod() -> (Cluster, Gate) {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add(pod("shop", "web").image("registry.example.com/web:1", 'a').created(7));
    report(&cluster, &gate, ADMIN).await.says(0, &[]);
    (cluster, gate)
}

#[tokio::test]
#[should_panic(expected = "lacks")]
async fn a_report_without_a_pod_that_lives_is_noticed() {
    let (cluster, gate) = one_pod().await;
    never_fewer_than_live(&gate, &cluster, PROD);
    put(&gate, []).await;
    never_fewer_than_live(&gate, &cluster, PROD);
}

#[tokio::test]
#[should_panic(expected = "report 2 of 3 lacks")]
async fn a_report_without_a_pod_that_was_reported_before_is_noticed() {
    let (cluster, gate) = one_pod().await;
    cluster.add(pod("shop", "web-2").image("registry.example.com/web:1", 'b').created(8));
    // It may not be known yet in the first, and has to be in the third.
    put(&gate, [("web", 7, 'a'), ("web-2", 8, 'b')]).await;
    put(&gate, [("web", 7, 'a')]).await;
    never_fewer_than_live(&gate, &cluster, PROD);
}

#[tokio::test]
#[should_panic(expected = "report 1 has")]
async fn a_report_of_what_never_ran_is_noticed() {
    let (cluster, gate) = one_pod().await;
    nothing_was_invented(&gate, &cluster, PROD);
    put(&gate, [("web", 7, 'b')]).await;
    nothing_was_invented(&gate, &cluster, PROD);
}

#[tokio::test]
#[should_panic(expected = "is there twice")]
async fn a_report_that_has_a_pod_twice_is_noticed() {
    let gate = Gate::alone();
    put(&gate, [("web", 7, 'b'), ("web", 7, 'b')]).await;
    gate.reports();
}

#[test]
fn metrics_are_read_by_name_and_labels() {
    let page = "# HELP a b\n# TYPE a counter\na_total{x=\"1 2\",y=\"z\"} 3\nb 1.5\n# EOF\n";
    let metrics = parse(page);
    assert_eq!(
        metrics.into_iter().collect::<Vec<_>>(),
        [("a_total{x=\"1 2\",y=\"z\"}".into(), 3.0), ("b".into(), 1.5)]
    );
}
