//! Shutdown by signals, and start errors.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::TcpStream;

use crate::daemon::support::cluster::{self, Cluster, pod};
use crate::daemon::support::gate::{Fault, Gate, hold};
use crate::daemon::support::rules::{always, first_n};
use crate::daemon::{Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::program::{Program, supercargo};
use crate::service::{Database, TestService};

fn web(n: usize) -> cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

async fn service() -> Gate {
    Gate::with_service(TestService::start(Database::sqlite()).await)
}

/// Starts a cluster with one pod, and an agent that has reported it.
async fn start_synced(
    gate: &Gate,
    builder: impl FnOnce(DaemonBuilder) -> DaemonBuilder,
) -> (Cluster, Daemon) {
    let cluster = Cluster::start();
    cluster.add(web(0));
    let daemon = builder(DaemonBuilder::new(&cluster, gate)).start();
    wait_until_in_sync(gate, &cluster, PROD).await;
    (cluster, daemon)
}

/// Waits for a clean exit, asserts the shutdown messages, and returns the log.
async fn shut_down(daemon: Daemon) -> Vec<String> {
    let (code, log) = daemon.wait().await;
    assert_eq!(code, 0, "{log:#?}");
    let last: Vec<_> = log
        .iter()
        .map(String::as_str)
        .filter(|line| line.contains("shutting down: ") || line.contains("stopped"))
        .collect();
    assert_eq!(last, ["INFO shutting down: sending unreported changes first", "INFO stopped"], "{log:#?}");
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debounced_change_is_reported_before_the_exit() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let gate = service().await;
        let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(1).args(["--debounce", "24h"])).await;
        let before = gate.reports().len();
        cluster.add(web(1));
        cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
        daemon.wait_for_pods(3).await;
        cluster.delete("shop", "job");
        daemon.wait_for_pods(2).await;
        assert_eq!(gate.reports().len(), before);
        daemon.signal(signal);
        shut_down(daemon).await;
        assert_no_loss(&gate, &cluster, PROD).await;
        assert_eq!(gate.reports().len(), before + 2);
    }
}

/// A pod starts and departs while the service is down.
async fn pod_departs(cluster: &Cluster, daemon: &Daemon) {
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.wait_for_pods(2).await;
    cluster.delete("shop", "job");
    daemon.wait_for_pods(1).await;
}

/// Asserts that the agent shut down, and that the departed pod was reported.
async fn departed_pod_is_reported(daemon: Daemon, gate: &Gate, cluster: &Cluster) {
    shut_down(daemon).await;
    assert_no_loss(gate, cluster, PROD).await;
    assert!(gate.every_accepted_pod("prod").iter().any(|pod| pod.name == "job"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_when_the_service_listens_only_after_sigterm() {
    let gate = service().await;
    // The first refused attempt is the one after the signal.
    let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(1).args(["--debounce", "24h"])).await;
    gate.listen(false);
    let address = gate.url().replace("http://", "");
    eventually("the port is closed", async || TcpStream::connect(&address).await.is_err()).await;
    pod_departs(&cluster, &daemon).await;
    daemon.signal(Signal::SIGTERM);
    let refused = daemon.wait_for_line("prod: report failed: ").await;
    assert!(refused.ends_with("; retrying"), "{refused}");
    gate.listen(true);
    departed_pod_is_reported(daemon, &gate, &cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_when_an_outage_ends_after_sigterm() {
    for fault in [Fault::Reset, Fault::Status(503, None), Fault::Status(429, Some(1))] {
        let gate = service().await;
        let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(1).args(["--debounce", "1ms"])).await;
        gate.inject(always(fault.clone()));
        pod_departs(&cluster, &daemon).await;
        daemon.wait_for_line("; retrying").await;
        let before = gate.reports().len();
        daemon.signal(Signal::SIGTERM);
        daemon.wait_for_line("shutting down: ").await;
        eventually("the last report is sent", async || gate.reports().len() > before).await;
        gate.clear_faults();
        departed_pod_is_reported(daemon, &gate, &cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_last_report_is_not_retried() {
    for (status, retry_after) in [(401, None), (503, Some(300))] {
        let gate = service().await;
        let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(1).args(["--debounce", "24h"])).await;
        gate.inject(always(Fault::Status(status, retry_after)));
        pod_departs(&cluster, &daemon).await;
        let before = gate.reports().len();
        daemon.signal(Signal::SIGTERM);
        let (code, log) = daemon.wait().await;
        assert_eq!((code, gate.reports().len() - before), (0, 1), "{log:#?}");
        let warnings: Vec<_> = log.iter().filter(|line| line.starts_with("WARN prod: ")).collect();
        let [failed, unreported] = warnings.as_slice() else { panic!("{log:#?}") };
        assert!(failed.starts_with("WARN prod: report failed: PUT "), "{failed}");
        assert!(!failed.contains("retrying"), "{failed}");
        let lost = "WARN prod: shutting down with unreported changes after 1 attempt: PUT ";
        assert!(unreported.starts_with(lost), "{unreported}");
        assert!(unreported.contains(&format!("failed: {status} ")), "{unreported}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_without_changes_sends_no_report() {
    let gate = service().await;
    let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(20).args(["--interval", "24h"])).await;
    daemon.wait_for_reports("new_snapshot", 1).await;
    daemon.signal(Signal::SIGTERM);
    shut_down(daemon).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    assert_eq!(gate.reports().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_awaits_the_report_in_flight_and_then_reports_later_changes() {
    let gate = service().await;
    let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(1)).await;
    let before = gate.reports().len();
    let (fault, hold) = hold();
    gate.inject(first_n(1, fault));
    cluster.add(web(1));
    eventually("a report is in flight", async || gate.reports().len() > before).await;
    cluster.add(web(2));
    daemon.wait_for_pods(3).await;
    daemon.signal(Signal::SIGTERM);
    daemon.wait_for_line("shutting down: ").await;
    assert_eq!(daemon.livez().await.0, 200);
    let (status, checks) = daemon.readyz().await;
    assert!(status == 503 && checks.contains("[-]running failed: the agent is shutting down"), "{checks}");
    hold.release();
    shut_down(daemon).await;
    assert_no_loss(&gate, &cluster, PROD).await;
    let reports: Vec<_> =
        gate.reports().iter().skip(before).map(|r| (r.pods.len(), r.status.is_some())).collect();
    assert_eq!(reports, [(2, true), (3, true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_signal_exits_at_once() {
    for second in [Signal::SIGTERM, Signal::SIGINT] {
        let gate = Gate::without_service();
        let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(1)).await;
        let (fault, _hold) = hold();
        gate.inject(always(fault));
        let before = gate.reports().len();
        cluster.add(web(1));
        daemon.wait_for_pods(2).await;
        daemon.signal(Signal::SIGTERM);
        eventually("the last report is in flight", async || gate.reports().len() > before).await;
        daemon.signal(second);
        let (code, log) = daemon.wait().await;
        assert_eq!(
            (code, log.last().unwrap().as_str()),
            (1, "WARN received a second signal: exiting immediately")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_before_the_first_list_sends_no_report() {
    for fault in [
        cluster::Fault::Stall,
        cluster::Fault::Silent,
        cluster::Fault::Broken,
        cluster::Fault::StallAfter(100),
    ] {
        let (cluster, gate) = (Cluster::start(), Gate::without_service());
        cluster.add(web(0));
        cluster.inject(always(fault.clone()));
        let daemon = Daemon::start(&cluster, &gate);
        eventually("pods are requested", async || cluster.first_request().is_some()).await;
        let (status, checks) = daemon.readyz().await;
        assert!(status == 503 && checks.contains("[-]list cluster failed"), "{fault:?}: {checks}");
        daemon.signal(Signal::SIGTERM);
        shut_down(daemon).await;
        assert!(gate.reports().is_empty(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_or_silent_service_does_not_delay_the_exit() {
    for fault in [None, Some(Fault::Status(503, None)), Some(Fault::Stall)] {
        let gate = service().await;
        // At this time scale, the last report may take 1.25 s and an upload 15 s.
        let (cluster, daemon) = start_synced(&gate, |s| s.time_scale(4)).await;
        match fault.clone() {
            Some(fault) => gate.inject(always(fault)),
            None => gate.listen(false),
        }
        cluster.add(web(1));
        daemon.wait_for_pods(2).await;
        daemon.signal(Signal::SIGTERM);
        let signaled = Instant::now();
        let log = shut_down(daemon).await;
        assert!(signaled.elapsed() < Duration::from_secs(10), "{fault:?}: {:?}", signaled.elapsed());
        assert_eq!(gate.accepted("prod").len(), 1);
        let last = log.iter().rfind(|line| line.starts_with("WARN prod: ")).unwrap();
        let (_, cause) = last.split_once("shutting down with unreported changes after ").unwrap();
        let (attempts, cause) = cause.split_once(": ").unwrap();
        let attempts: u32 = attempts.split(' ').next().unwrap().parse().unwrap();
        let (is_retried, expected) = match &fault {
            None => (true, "Connection refused"),
            Some(Fault::Stall) => (false, "the last attempt timed out"),
            Some(_) => (true, "503 Service Unavailable"),
        };
        assert!(cause.contains(expected), "{last}");
        assert_eq!(attempts > 2, is_retried, "{last}");
    }
}

/// `supercargo agent` as a daemon with an unreachable service.
fn agent() -> Program {
    supercargo()
        .args(["agent"])
        .env("SUPERCARGO_BASE_URL", "http://127.0.0.1:9")
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", crate::program::TOKEN)
}

#[test]
fn address_in_use_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let kubeconfig =
        crate::fake::kube::kubeconfig("http://127.0.0.1:9", None, &crate::fake::kube::User::Anonymous);
    let program = agent().args(["--environment", "prod", "--listen", &address]).kubeconfig(&kubeconfig);
    program.run().expect(2, &[&address, "in use"]);
}

#[test]
fn invalid_start_options_are_usage_errors() {
    let namespaces: Vec<_> = (1..=51).map(|n| format!("ns-{n}")).collect();
    let namespaces = namespaces.join(",");
    let kubeconfig =
        crate::fake::kube::kubeconfig("http://127.0.0.1:9", None, &crate::fake::kube::User::Anonymous);
    let prod = || agent().args(["--environment", "prod"]).kubeconfig(&kubeconfig);
    agent()
        .args(["--environment", "prod", "--kubeconfig", "nowhere"])
        .run()
        .expect(2, &["kubeconfig", "nowhere", "No such file"]);
    prod().args(["--context", "nowhere"]).run().expect(2, &["nowhere"]);
    prod().args(["--namespace", &namespaces]).run().expect(2, &["51", "hint", "--namespace-regex"]);
    for flags in [&["--timeout", "5s"][..], &["--dry-run"], &["--pods-from", "pods.json"]] {
        agent().args(["--environment", "prod"]).args(flags.iter().copied()).run().expect(2, &["--once"]);
    }
    for flags in [
        &["--interval", "5s"][..],
        &["--debounce", "5s"],
        &["--no-departed-pods"],
        &["--listen", "127.0.0.1:0"],
    ] {
        prod().args(["--once"]).args(flags.iter().copied()).run().expect(2, &["--once", flags[0]]);
    }
    prod().env("SUPERCARGO_TOKEN", "").run().expect(2, &["SUPERCARGO_TOKEN"]);
}
