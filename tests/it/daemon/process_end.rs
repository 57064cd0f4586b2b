//! How the agent ends: by a signal, at whatever it is, or because it cannot begin.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::TcpStream;

use crate::daemon::cluster::{self, Cluster, pod};
use crate::daemon::gate::{Fault, Gate, hold};
use crate::daemon::rules::{always, the_first};
use crate::daemon::{Daemon, PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_lost};
use crate::program::{Program, supercargo};
use crate::service::{Database, Running};

fn web(n: usize) -> cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

async fn service() -> Gate {
    Gate::before(Running::start(Database::sqlite()).await)
}

/// A cluster of one pod, and an agent that has reported it.
async fn day(gate: &Gate, starting: impl FnOnce(Starting) -> Starting) -> (Cluster, Daemon) {
    let cluster = Cluster::start();
    cluster.add(web(0));
    let daemon = starting(Starting::between(&cluster, gate)).start();
    holds_what_the_cluster_holds(gate, &cluster, PROD).await;
    (cluster, daemon)
}

/// It ended in order, and said so; returns its log.
async fn ends(daemon: Daemon) -> Vec<String> {
    let (code, said) = daemon.wait().await;
    assert_eq!(code, 0, "{said:#?}");
    let last: Vec<_> = said.iter().map(String::as_str).filter(|line| line.contains("stop")).collect();
    assert_eq!(last, ["stopping: what is not reported yet is reported first", "stopped"], "{said:#?}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_waits_for_company_is_reported_before_the_end() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let gate = service().await;
        let (cluster, daemon) = day(&gate, |s| s.hasten(5).args(["--debounce", "24h"])).await;
        let before = gate.reports().len();
        cluster.add(web(1));
        cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
        daemon.hears_of(3).await;
        cluster.delete("shop", "job");
        daemon.hears_of(2).await;
        assert_eq!(gate.reports().len(), before);
        daemon.signal(signal);
        ends(daemon).await;
        nothing_was_lost(&gate, &cluster, PROD).await;
        assert_eq!(gate.reports().len(), before + 2);
    }
}

/// A pod comes and goes while the service is down, before the agent can report it.
async fn pod_departs(cluster: &Cluster, daemon: &Daemon) {
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b'));
    daemon.hears_of(2).await;
    cluster.delete("shop", "job");
    daemon.hears_of(1).await;
}

/// The agent has shut down, and the service has every pod, the departed one included.
async fn departed_pod_is_reported(daemon: Daemon, gate: &Gate, cluster: &Cluster) {
    ends(daemon).await;
    nothing_was_lost(gate, cluster, PROD).await;
    assert!(gate.every_accepted_pod("prod").iter().any(|pod| pod.name == "job"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_when_the_service_listens_only_after_sigterm() {
    let gate = service().await;
    // The attempt after the signal is the first that is refused.
    let (cluster, daemon) = day(&gate, |s| s.hasten(1).args(["--debounce", "24h"])).await;
    gate.listen(false);
    let address = gate.url().replace("http://", "");
    eventually("the port is closed", async || TcpStream::connect(&address).await.is_err()).await;
    pod_departs(&cluster, &daemon).await;
    daemon.signal(Signal::SIGTERM);
    let refused = daemon.says("prod: not reported: ").await;
    assert!(refused.ends_with("; trying again"), "{refused}");
    gate.listen(true);
    departed_pod_is_reported(daemon, &gate, &cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_pod_is_reported_when_an_outage_ends_after_sigterm() {
    for fault in [Fault::Reset, Fault::Says(503, None), Fault::Says(429, Some(1))] {
        let gate = service().await;
        let (cluster, daemon) = day(&gate, |s| s.hasten(1).args(["--debounce", "1ms"])).await;
        gate.misbehave(always(fault.clone()));
        pod_departs(&cluster, &daemon).await;
        daemon.says("; trying again").await;
        let before = gate.reports().len();
        daemon.signal(Signal::SIGTERM);
        daemon.says("stopping").await;
        eventually("the last report is sent", async || gate.reports().len() > before).await;
        gate.behave();
        departed_pod_is_reported(daemon, &gate, &cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_last_report_is_not_retried() {
    for (status, retry_after) in [(401, None), (503, Some(300))] {
        let gate = service().await;
        let (cluster, daemon) = day(&gate, |s| s.hasten(1).args(["--debounce", "24h"])).await;
        gate.misbehave(always(Fault::Says(status, retry_after)));
        pod_departs(&cluster, &daemon).await;
        let before = gate.reports().len();
        daemon.signal(Signal::SIGTERM);
        let (code, said) = daemon.wait().await;
        assert_eq!((code, gate.reports().len() - before), (0, 1), "{said:#?}");
        let warnings: Vec<_> = said.iter().filter(|line| line.starts_with("warning: prod: ")).collect();
        let [failed, unreported] = warnings.as_slice() else { panic!("{said:#?}") };
        assert!(failed.starts_with("warning: prod: not reported: PUT "), "{failed}");
        assert!(!failed.contains("trying again"), "{failed}");
        let lost = "warning: prod: shutting down with unreported changes after 1 attempt: PUT ";
        assert!(unreported.starts_with(lost), "{unreported}");
        assert!(unreported.contains(&format!("was answered with {status} ")), "{unreported}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_changed_there_is_no_last_word() {
    let gate = service().await;
    let (cluster, daemon) = day(&gate, |s| s.hasten(20).args(["--interval", "24h"])).await;
    daemon.has_reported("new_snapshot", 1).await;
    daemon.signal(Signal::SIGTERM);
    ends(daemon).await;
    nothing_was_lost(&gate, &cluster, PROD).await;
    assert_eq!(gate.reports().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_is_under_way_is_waited_for_and_what_changed_since_is_said_behind_it() {
    let gate = service().await;
    let (cluster, daemon) = day(&gate, |s| s.hasten(2)).await;
    let before = gate.reports().len();
    let (fault, hold) = hold();
    gate.misbehave(the_first(1, fault));
    cluster.add(web(1));
    eventually("a report is under way", async || gate.reports().len() > before).await;
    cluster.add(web(2));
    daemon.hears_of(3).await;
    daemon.signal(Signal::SIGTERM);
    daemon.says("stopping").await;
    assert_eq!(daemon.livez().await.0, 200);
    let (status, checks) = daemon.readyz().await;
    assert!(status == 503 && checks.contains("[-]running failed: the agent is stopping"), "{checks}");
    hold.let_go();
    ends(daemon).await;
    nothing_was_lost(&gate, &cluster, PROD).await;
    let told: Vec<_> = gate.reports().iter().skip(before).map(|r| (r.pods.len(), r.told.is_some())).collect();
    assert_eq!(told, [(2, true), (3, true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    for second in [Signal::SIGTERM, Signal::SIGINT] {
        let gate = Gate::alone();
        let (cluster, daemon) = day(&gate, |s| s.hasten(1)).await;
        let (fault, _hold) = hold();
        gate.misbehave(always(fault));
        let before = gate.reports().len();
        cluster.add(web(1));
        daemon.hears_of(2).await;
        daemon.signal(Signal::SIGTERM);
        eventually("the last word is under way", async || gate.reports().len() > before).await;
        daemon.signal(second);
        let (code, said) = daemon.wait().await;
        assert_eq!((code, said.last().unwrap().as_str()), (1, "warning: a second signal: ending at once"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_first_list_is_complete_there_is_nothing_to_say() {
    for fault in [
        cluster::Fault::Stall,
        cluster::Fault::Silent,
        cluster::Fault::Broken,
        cluster::Fault::StallAfter(100),
    ] {
        let (cluster, gate) = (Cluster::start(), Gate::alone());
        cluster.add(web(0));
        cluster.misbehave(always(fault.clone()));
        let daemon = Daemon::start(&cluster, &gate);
        eventually("it asks", async || cluster.first_asked().is_some()).await;
        let (status, checks) = daemon.readyz().await;
        assert!(status == 503 && checks.contains("[-]list cluster failed"), "{fault:?}: {checks}");
        daemon.signal(Signal::SIGTERM);
        ends(daemon).await;
        assert!(gate.reports().is_empty(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_down_or_silent_does_not_hold_up_the_end() {
    for fault in [None, Some(Fault::Says(503, None)), Some(Fault::Stall)] {
        let gate = service().await;
        // The last word has a second and a quarter, an upload a quarter of a minute.
        let (cluster, daemon) = day(&gate, |s| s.hasten(4)).await;
        match fault.clone() {
            Some(fault) => gate.misbehave(always(fault)),
            None => gate.listen(false),
        }
        cluster.add(web(1));
        daemon.hears_of(2).await;
        daemon.signal(Signal::SIGTERM);
        let asked = Instant::now();
        let said = ends(daemon).await;
        assert!(asked.elapsed() < Duration::from_secs(10), "{fault:?}: {:?}", asked.elapsed());
        assert_eq!(gate.accepted("prod").len(), 1);
        let last = said.iter().rfind(|line| line.starts_with("warning: prod: ")).unwrap();
        let (_, cause) = last.split_once("shutting down with unreported changes after ").unwrap();
        let (attempts, cause) = cause.split_once(": ").unwrap();
        let attempts: u32 = attempts.split(' ').next().unwrap().parse().unwrap();
        let (is_retried, expected) = match &fault {
            None => (true, "Connection refused"),
            Some(Fault::Stall) => (false, "the last one was not answered in time"),
            Some(_) => (true, "503 Service Unavailable"),
        };
        assert!(cause.contains(expected), "{last}");
        assert_eq!(attempts > 2, is_retried, "{last}");
    }
}

/// `supercargo agent` as the daemon that reports to `prod`, and can reach nothing.
fn agent() -> Program {
    supercargo()
        .args(["agent"])
        .env("SUPERCARGO_BASE_URL", "http://127.0.0.1:9")
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", crate::program::TOKEN)
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig =
        crate::fake::kube::kubeconfig("http://127.0.0.1:9", None, &crate::fake::kube::User::Nobody);
    let program = agent().args(["--environment", "prod", "--listen", &address]).kubeconfig(&kubeconfig);
    program.run().says(2, &[&address, "in use"]);
}

#[test]
fn what_it_cannot_begin_with_is_said_and_is_a_usage_error() {
    let namespaces: Vec<_> = (1..=51).map(|n| format!("ns-{n}")).collect();
    let namespaces = namespaces.join(",");
    let kubeconfig =
        crate::fake::kube::kubeconfig("http://127.0.0.1:9", None, &crate::fake::kube::User::Nobody);
    let here = || agent().args(["--environment", "prod"]).kubeconfig(&kubeconfig);
    agent()
        .args(["--environment", "prod", "--kubeconfig", "nowhere"])
        .run()
        .says(2, &["the kubeconfig", "nowhere", "No such file"]);
    here().args(["--context", "nowhere"]).run().says(2, &["nowhere"]);
    here().args(["--namespace", &namespaces]).run().says(2, &["51", "hint", "--namespace-regex"]);
    for flags in [&["--timeout", "5s"][..], &["--dry-run"], &["--pods-from", "pods.json"]] {
        agent().args(["--environment", "prod"]).args(flags.iter().copied()).run().says(2, &["--once"]);
    }
    for flags in
        [&["--interval", "5s"][..], &["--debounce", "5s"], &["--no-witness"], &["--listen", "127.0.0.1:0"]]
    {
        here().args(["--once"]).args(flags.iter().copied()).run().says(2, &["--once", flags[0]]);
    }
    here().env("SUPERCARGO_TOKEN", "").run().says(2, &["SUPERCARGO_TOKEN"]);
}
