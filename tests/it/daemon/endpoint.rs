//! A service that is down, slow, or loses responses. Every pod is still reported.

use std::time::Duration;

use serde_json::Value;
use service::Limits;

use crate::daemon::support::cluster::{Cluster, Pod, pod};
use crate::daemon::support::gate::{Fault, Gate};
use crate::daemon::support::rules::{always, first_n};
use crate::daemon::{Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::service::{Database, Options, TestService};

fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n).owner("ReplicaSet", "web-7d")
}

/// A pod with an image of its own.
fn job(n: usize) -> Pod {
    pod("shop", &format!("job-{n}")).image("registry.example.com/job:1", 1000 + n).owner("Job", "job")
}

/// Starts a cluster with one pod, and a daemon that has reported it.
async fn start_synced(builder: impl FnOnce(DaemonBuilder) -> DaemonBuilder) -> (Cluster, Gate, Daemon) {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = builder(DaemonBuilder::new(&cluster, &gate)).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    (cluster, gate, daemon)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pods_are_reported_once_after_an_hour_long_outage() {
    let time_scale = 200;
    let (cluster, gate, daemon) =
        start_synced(|s| s.time_scale(time_scale).args(["--log-format", "json"])).await;
    gate.listen(false);
    cluster.add(web(1));
    cluster.add(job(1));
    daemon.wait_for_pods(3).await;
    // One pod ends and remains for a while, as a Job's does; the other is deleted at once.
    cluster.modify("shop", "job-1", Pod::ended);
    daemon.wait_for_pods(2).await;
    daemon.wait_for_reports("unreachable", 6).await;
    cluster.add(job(2));
    daemon.wait_for_pods(3).await;
    cluster.delete("shop", "job-2");
    cluster.delete("shop", "web-0");
    daemon.wait_for_pods(1).await;
    cluster.delete("shop", "job-1");
    daemon.wait_for_reports("unreachable", 12).await;
    gate.listen(true);
    assert_no_loss(&gate, &cluster, PROD).await;

    // The first attempts may have been accepted although the connection broke.
    let answered: Vec<_> =
        gate.accepted("prod").into_iter().filter(|report| report.status.is_some()).collect();
    for departed in ["job-1", "job-2"] {
        let with = |report: &&_| has(report, departed);
        assert_eq!(answered.iter().filter(with).count(), 1, "{departed}");
        let at = answered.iter().position(|report| has(report, departed)).unwrap();
        assert!(
            has(&answered[at], "web-1")
                && !has(&answered[at + 1], departed)
                && has(&answered[at + 1], "web-1")
        );
    }

    let back = daemon.wait_for_line("prod: reported again").await;
    let log = daemon.stop().await;
    let back: Value = serde_json::from_str(&back).unwrap();
    assert!(back["failures"].as_u64() >= Some(12), "{back}");
    let minutes = back["seconds"].as_f64().unwrap() * f64::from(time_scale) / 60.0;
    let still = log.iter().filter(|line| line.contains("prod: report still failing after")).count();
    let outages = log.iter().filter(|line| line.contains("prod: report failed:")).count();
    // The open connection is dropped, and the next is refused, or late on a busy machine.
    assert!((1..=3).contains(&outages), "{log:#?}");
    assert!(still >= 1 && f64::from(u32::try_from(still).unwrap()) <= minutes, "{minutes}: {log:#?}");
    assert_eq!(log.iter().filter(|line| line.contains("reported again")).count(), 1);
}

fn has(report: &crate::daemon::support::gate::Report, name: &str) -> bool {
    report.pods.iter().any(|pod| pod.name == name)
}

/// During a fault of the service, a pod starts, and another departs.
async fn assert_survives(
    cluster: &Cluster,
    gate: &Gate,
    daemon: &Daemon,
    n: usize,
    fault: Fault,
    outcome: &str,
) {
    let before = daemon.report_count(outcome).await;
    gate.inject(always(fault));
    cluster.add(web(n));
    cluster.add(job(n));
    daemon.wait_for_pods(n + 2).await;
    cluster.delete("shop", &format!("job-{n}"));
    daemon.wait_for_reports(outcome, before + 2).await;
    daemon.wait_for_pods(n + 1).await;
    gate.clear_faults();
    assert_no_loss(gate, cluster, PROD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transient_errors_are_retried_until_they_pass() {
    let (cluster, gate, daemon) = start_synced(|builder| builder).await;
    let faults = [
        (Fault::Status(500, None), "unavailable"),
        (Fault::Status(503, Some(0)), "unavailable"),
        (Fault::Status(408, None), "unavailable"),
        (Fault::Reset, "unreachable"),
        (Fault::CutUploadAfter(100), "unreachable"),
        (Fault::AcceptThenReset, "unreachable"),
        (Fault::AcceptThenCut, "broken_off"),
    ];
    for (n, (fault, outcome)) in (1..).zip(faults) {
        assert_survives(&cluster, &gate, &daemon, n, fault, outcome).await;
    }
    daemon.wait_for_line("500 Internal Server Error: injected 500").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_response_times_out_and_is_retried() {
    let (cluster, gate, daemon) = start_synced(|builder| builder).await;
    assert_survives(&cluster, &gate, &daemon, 1, Fault::Stall, "stalled").await;
    // The service accepts the report, and responds too late.
    assert_survives(&cluster, &gate, &daemon, 2, Fault::AcceptAfter(Duration::from_mins(1)), "stalled").await;
    daemon.wait_for_line("timed out after 600ms").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_service_gets_one_report_at_a_time_and_no_pod_is_lost() {
    let (cluster, gate, daemon) = start_synced(|builder| builder.time_scale(10)).await;
    gate.inject(always(Fault::AcceptAfter(Duration::from_millis(100))));
    for n in 1..=5 {
        cluster.add(web(n));
        cluster.add(job(n));
        daemon.wait_for_pods(n + 2).await;
        cluster.delete("shop", &format!("job-{n}"));
        daemon.wait_for_pods(n + 1).await;
    }
    assert_no_loss(&gate, &cluster, PROD).await;
    let reports = gate.reports();
    let apart = reports.windows(2).skip(1).map(|two| two[1].arrived - two[0].arrived).min().unwrap();
    assert!(apart >= Duration::from_millis(100), "{apart:?}");
    for failure in ["stalled", "unreachable", "unavailable", "broken_off"] {
        assert_eq!(daemon.report_count(failure).await, 0, "{failure}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_delays_reports_up_to_its_limit() {
    // At this time scale, 120 seconds exceed the limit of five minutes.
    let max_retry_after = Duration::from_mins(5) / 200;
    let (cluster, gate, daemon) = start_synced(|builder| builder.time_scale(200)).await;
    gate.inject(first_n(2, Fault::Status(429, Some(120))));
    for n in 1..=30 {
        cluster.add(web(n));
        daemon.wait_for_pods(n + 1).await;
    }
    let answered = async || gate.reports().iter().filter(|report| report.status == Some(429)).count() == 2;
    eventually("two reports get a 429", answered).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    let reports = gate.reports();
    let first = reports.iter().position(|report| report.status == Some(429)).unwrap();
    for two in reports[first..].windows(2).take(2) {
        let apart = two[1].arrived - two[0].arrived;
        assert!(apart >= max_retry_after, "{apart:?}");
    }
    assert_eq!(reports[first + 1].status, Some(429));
    daemon.wait_for_line("429 Too Many Requests: injected 429").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_large_report_is_resent_completely() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    // A smaller time scale, since a report of 1,000 pods takes time.
    cluster.add_all((0..1000).map(web));
    gate.inject(first_n(2, Fault::CutUploadAfter(70_000)));
    gate.inject(first_n(2, Fault::EarlyStatus(503)));
    let daemon = DaemonBuilder::new(&cluster, &gate).time_scale(40).start();
    assert_no_loss(&gate, &cluster, PROD).await;
    cluster.add(web(1000));
    assert_no_loss(&gate, &cluster, PROD).await;
    let statuses: Vec<_> = gate.reports().iter().take(4).map(|report| report.status).collect();
    assert_eq!(statuses, [None, None, Some(503), Some(503)]);
    assert!(gate.reports()[4].body.len() > 200_000);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_report_is_accepted_once_fewer_pods_run() {
    let limits = Limits { report: 4096, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let gate = Gate::with_service(TestService::start_with(Database::sqlite(), options).await);
    let cluster = Cluster::start();
    cluster.add_all((0..40).map(web));
    let daemon = DaemonBuilder::new(&cluster, &gate).start();
    daemon.wait_for_reports("refused", 1).await;
    (5..40).for_each(|n| cluster.delete("shop", &format!("web-{n}")));
    daemon.wait_for_pods(5).await;
    wait_until_in_sync(&gate, &cluster, PROD).await;
    daemon.stop().await;
}
