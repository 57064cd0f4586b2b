//! The service is away, slow, or loses what it was told: nothing that ran stays unreported.

use std::time::Duration;

use serde_json::Value;
use supercargo::service::Policy;

use crate::daemon::cluster::{Cluster, Pod, pod};
use crate::daemon::gate::{Fault, Gate};
use crate::daemon::rules::{always, the_first};
use crate::daemon::{Daemon, PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_lost};
use crate::service::{Database, Options, Running};

fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n).owner("ReplicaSet", "web-7d")
}

/// Nothing else runs its image.
fn job(n: usize) -> Pod {
    pod("shop", &format!("job-{n}")).image("registry.example.com/job:1", 1000 + n).owner("Job", "job")
}

/// A cluster of one pod, and a service that knows of it.
async fn day(starting: impl FnOnce(Starting) -> Starting) -> (Cluster, Gate, Daemon) {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    let daemon = starting(Starting::between(&cluster, &gate)).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    (cluster, gate, daemon)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_hour_without_the_service_each_pod_is_reported_once_and_then_what_runs() {
    let hasten = 200;
    let (cluster, gate, daemon) = day(|s| s.hasten(hasten).args(["--log-format", "json"])).await;
    gate.listen(false);
    cluster.add(web(1));
    cluster.add(job(1));
    daemon.hears_of(3).await;
    // One ends and stays for a while, as those of Jobs do; one is gone at once.
    cluster.modify("shop", "job-1", Pod::ended);
    daemon.hears_of(2).await;
    daemon.has_reported("unreachable", 6).await;
    cluster.add(job(2));
    daemon.hears_of(3).await;
    cluster.delete("shop", "job-2");
    cluster.delete("shop", "web-0");
    daemon.hears_of(1).await;
    cluster.delete("shop", "job-1");
    daemon.has_reported("unreachable", 12).await;
    gate.listen(true);
    nothing_was_lost(&gate, &cluster, PROD).await;

    // It may have been told of the first tries only that they broke off.
    let told: Vec<_> = gate.accepted("prod").into_iter().filter(|report| report.told.is_some()).collect();
    for gone in ["job-1", "job-2"] {
        let with = |report: &&_| has(report, gone);
        assert_eq!(told.iter().filter(with).count(), 1, "{gone}");
        let at = told.iter().position(|report| has(report, gone)).unwrap();
        assert!(has(&told[at], "web-1") && !has(&told[at + 1], gone) && has(&told[at + 1], "web-1"));
    }

    let back = daemon.says("prod: reported again").await;
    let said = daemon.stop().await;
    let back: Value = serde_json::from_str(&back).unwrap();
    assert!(back["failures"].as_u64() >= Some(12), "{back}");
    let minutes = back["seconds"].as_f64().unwrap() * f64::from(hasten) / 60.0;
    let still = said.iter().filter(|line| line.contains("prod: still not reported after")).count();
    let begun = said.iter().filter(|line| line.contains("prod: not reported:")).count();
    // A connection that stood is dropped, and the next is refused, or late on a busy machine.
    assert!((1..=3).contains(&begun), "{said:#?}");
    assert!(still >= 1 && f64::from(u32::try_from(still).unwrap()) <= minutes, "{minutes}: {said:#?}");
    assert_eq!(said.iter().filter(|line| line.contains("reported again")).count(), 1);
}

fn has(report: &crate::daemon::gate::Report, name: &str) -> bool {
    report.pods.iter().any(|pod| pod.name == name)
}

/// While the service misbehaves a pod starts, and another comes and goes.
async fn bad_hour(cluster: &Cluster, gate: &Gate, daemon: &Daemon, n: usize, fault: Fault, outcome: &str) {
    let before = daemon.reports(outcome).await;
    gate.misbehave(always(fault));
    cluster.add(web(n));
    cluster.add(job(n));
    daemon.hears_of(n + 2).await;
    cluster.delete("shop", &format!("job-{n}"));
    daemon.has_reported(outcome, before + 2).await;
    daemon.hears_of(n + 1).await;
    gate.behave();
    nothing_was_lost(gate, cluster, PROD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passes_is_tried_again_until_it_has_passed() {
    let (cluster, gate, daemon) = day(|starting| starting).await;
    let faults = [
        (Fault::Says(500, None), "unavailable"),
        (Fault::Says(503, Some(0)), "unavailable"),
        (Fault::Says(408, None), "unavailable"),
        (Fault::Reset, "unreachable"),
        (Fault::CutUploadAfter(100), "unreachable"),
        (Fault::TakenThenCut, "unreachable"),
        (Fault::AnswerCut, "broken_off"),
    ];
    for (n, (fault, outcome)) in (1..).zip(faults) {
        bad_hour(&cluster, &gate, &daemon, n, fault, outcome).await;
    }
    daemon.says("500 Internal Server Error: the gate says 500").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_does_not_come_in_time_is_not_waited_for() {
    let (cluster, gate, daemon) = day(|starting| starting).await;
    bad_hour(&cluster, &gate, &daemon, 1, Fault::Stall, "stalled").await;
    // The service has it, and says so too late.
    bad_hour(&cluster, &gate, &daemon, 2, Fault::After(Duration::from_mins(1)), "stalled").await;
    daemon.says("did not move for 600ms").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_service_is_told_all_the_same_and_not_twice_at_a_time() {
    let (cluster, gate, daemon) = day(|starting| starting.hasten(40)).await;
    gate.misbehave(always(Fault::After(Duration::from_millis(100))));
    for n in 1..=5 {
        cluster.add(web(n));
        cluster.add(job(n));
        daemon.hears_of(n + 2).await;
        cluster.delete("shop", &format!("job-{n}"));
        daemon.hears_of(n + 1).await;
    }
    nothing_was_lost(&gate, &cluster, PROD).await;
    let reports = gate.reports();
    let apart = reports.windows(2).skip(1).map(|two| two[1].arrived - two[0].arrived).min().unwrap();
    assert!(apart >= Duration::from_millis(100), "{apart:?}");
    for failure in ["stalled", "unreachable", "unavailable", "broken_off"] {
        assert_eq!(daemon.reports(failure).await, 0, "{failure}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_service_asks_for_patience_nothing_is_sent() {
    // Two minutes are believed; at a hundredth they are more than the five that are believed at most.
    let believed = Duration::from_mins(5) / 200;
    let (cluster, gate, daemon) = day(|starting| starting.hasten(200)).await;
    gate.misbehave(the_first(2, Fault::Says(429, Some(120))));
    for n in 1..=30 {
        cluster.add(web(n));
        daemon.hears_of(n + 1).await;
    }
    let answered = async || gate.reports().iter().filter(|report| report.told == Some(429)).count() == 2;
    eventually("it is told twice to wait", answered).await;
    nothing_was_lost(&gate, &cluster, PROD).await;
    let reports = gate.reports();
    let first = reports.iter().position(|report| report.told == Some(429)).unwrap();
    for two in reports[first..].windows(2).take(2) {
        let apart = two[1].arrived - two[0].arrived;
        assert!(apart >= believed, "{apart:?}");
    }
    assert_eq!(reports[first + 1].told, Some(429));
    daemon.says("429 Too Many Requests: the gate says 429").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_report_that_is_cut_or_refused_in_the_middle_is_sent_again_whole() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    // A fortieth, since the service takes its time over a thousand pods.
    cluster.add_all((0..1000).map(web));
    gate.misbehave(the_first(2, Fault::CutUploadAfter(70_000)));
    gate.misbehave(the_first(2, Fault::SaysAtOnce(503)));
    let daemon = Starting::between(&cluster, &gate).hasten(40).start();
    nothing_was_lost(&gate, &cluster, PROD).await;
    cluster.add(web(1000));
    nothing_was_lost(&gate, &cluster, PROD).await;
    let told: Vec<_> = gate.reports().iter().take(4).map(|report| report.told).collect();
    assert_eq!(told, [None, None, Some(503), Some(503)]);
    assert!(gate.reports()[4].body.len() > 200_000);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_was_too_large_is_accepted_once_fewer_pods_run() {
    let policy = Policy { report: 4096, ..Policy::default() };
    let options = Options { policy, ..Options::default() };
    let gate = Gate::before(Running::start_with(Database::sqlite(), options).await);
    let cluster = Cluster::start();
    cluster.add_all((0..40).map(web));
    let daemon = Starting::between(&cluster, &gate).start();
    daemon.has_reported("refused", 1).await;
    (5..40).for_each(|n| cluster.delete("shop", &format!("web-{n}")));
    daemon.hears_of(5).await;
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    daemon.stop().await;
}
