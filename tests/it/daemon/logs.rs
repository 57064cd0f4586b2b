//! The agent's log: its lines during a day, its JSON fields, and no secrets.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};

use crate::daemon::support::cluster::{self, ApiRequest, Cluster, Pod, pod};
use crate::daemon::support::gate::{Fault, Gate};
use crate::daemon::support::rules::{always, on};
use crate::daemon::support::shop::shop;
use crate::daemon::{Daemon, DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::service::{ADMIN, Database, TestService};

fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// The JSON objects of the lines.
fn objects(log: &[String]) -> Vec<Map<String, Value>> {
    log.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The log without values that vary between runs, and without repeated lines.
fn redacted(log: &[String]) -> String {
    let rules = [
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
        (r#""(seconds|failures)":[0-9.e-]+"#, r#""$1":"[number]""#),
        (r"\d+(\.\d+)? ?(ns|µs|ms|s)\b", "[time]"),
        (r"after \d+ (attempts|failures)", "after [number] $1"),
        (env!("CARGO_PKG_VERSION"), "[version]"),
    ];
    let rules = rules.map(|(from, to)| (Regex::new(from).unwrap(), to));
    let mut lines: Vec<String> = Vec::new();
    for mut object in objects(log) {
        let timestamp = object.remove("timestamp").unwrap();
        timestamp.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let line = Value::Object(object).to_string();
        lines.push(rules.iter().fold(line, |line, (from, to)| from.replace_all(&line, *to).into_owned()));
    }
    lines.dedup();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_of_a_day_is_short_and_complete() {
    let (cluster, gate) =
        (Cluster::start(), Gate::with_service(TestService::start(Database::sqlite()).await));
    cluster.add(web(0));
    // A smaller time scale, so that a busy machine causes no outage.
    let builder = DaemonBuilder::new(&cluster, &gate).time_scale(10);
    let daemon = builder.args(["--log-format", "json"]).start();
    for n in 1..=10 {
        daemon.wait_for_nth_line("reported, new snapshot", n).await;
        cluster.add(web(n));
    }
    daemon.wait_for_nth_line("reported, new snapshot", 11).await;
    gate.inject(always(Fault::Status(503, None)));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b').owner("Job", "job"));
    daemon.wait_for_pods(12).await;
    cluster.delete("shop", "job");
    daemon.wait_for_reports("unavailable", 4).await;
    daemon.wait_for_line("prod: report still failing").await;
    gate.clear_faults();
    assert_no_loss(&gate, &cluster, PROD).await;
    daemon.wait_for_nth_line("reported, new snapshot", 13).await;
    let log = daemon.stop().await;
    insta::assert_snapshot!(redacted(&log));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_lines_have_level_message_and_subject() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(web(0));
    cluster.add(pod("shop", "late").image("registry.example.com/web:1", 'a').pending());
    let args = ["--log-format", "json", "-v"];
    let daemon = DaemonBuilder::new(&cluster, &gate).args(args).token_file(ADMIN).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    gate.accept_only("another");
    daemon.wait_for_line("401 Unauthorized").await;
    daemon.write_token("another");
    daemon.wait_for_line("reported again").await;
    cluster.inject(on(ApiRequest::is_watch, always(cluster::Fault::Broken)));
    cluster.end_watches();
    daemon.wait_for_line("500 Internal Server Error").await;
    cluster.clear_faults();
    daemon.wait_for_line("recovered after").await;
    let log = daemon.stop().await;
    let mut levels = BTreeSet::new();
    for object in objects(&log) {
        let text = |key: &str| object[key].as_str().unwrap_or_else(|| panic!("{key}: {object:?}")).to_owned();
        let (level, message) = (text("level"), text("message"));
        assert!(text("target").starts_with("supercargo_"), "{object:?}");
        assert!(!message.is_empty() && !text("timestamp").is_empty(), "{object:?}");
        // Messages above DEBUG name their environment or watch in a field.
        if level != "DEBUG" && message.starts_with("prod: ") {
            assert_eq!(text("environment"), "prod", "{object:?}");
        }
        if level != "DEBUG" && message.starts_with("the cluster: ") {
            assert_eq!(text("watch"), "cluster", "{object:?}");
        }
        if level == "INFO" && message.contains(" reported, ") {
            assert!(!text("outcome").is_empty() && object["pods"].is_u64(), "{object:?}");
            assert_eq!(text("left_out"), "1 pod not started", "{object:?}");
        }
        if message.contains("reported again") || message.contains("recovered after") {
            assert!(object["failures"].is_u64() && object["seconds"].is_f64(), "{object:?}");
        }
        levels.insert(level);
    }
    assert_eq!(levels.into_iter().collect::<Vec<_>>(), ["DEBUG", "INFO", "WARN"]);
}

const CLUSTER_TOKEN: &str = "s3cret-cluster-t0ken";

/// The log and all pages of the daemon.
async fn all_output(daemon: &Daemon) -> String {
    let mut all = daemon.log().join("\n");
    for path in ["/metrics", "/readyz", "/readyz?verbose", "/livez"] {
        all.push_str(&daemon.get(path).await.1);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_and_metrics_contain_no_pod_names_and_no_tokens() {
    for format in ["text", "json"] {
        let (cluster, gate) = (Cluster::start(), Gate::without_service());
        cluster.require_token(CLUSTER_TOKEN);
        for (n, odd) in [web(0), web(1).pending(), web(2).ended(), web(3).failed()].into_iter().enumerate() {
            cluster.add(Pod { name: format!("n0b0dy-{n}"), ..odd });
        }
        let builder = DaemonBuilder::new(&cluster, &gate).args(["--log-format", format]);
        let daemon = builder.token_file(ADMIN).start();
        wait_until_in_sync(&gate, &cluster, PROD).await;
        let mut all = all_output(&daemon).await;
        gate.accept_only("another-s3cret");
        cluster.add(Pod { name: "n0b0dy-4".to_owned(), ..web(4) });
        daemon.wait_for_line("401 Unauthorized").await;
        cluster.delete("shop", "n0b0dy-4");
        daemon.write_token("another-s3cret");
        daemon.wait_for_line("reported again").await;
        assert_no_loss(&gate, &cluster, PROD).await;
        cluster.require_token("yet-another-s3cret");
        cluster.end_watches();
        daemon.wait_for_line("the cluster: ").await;
        daemon.wait_for_line("prod: not reported").await;
        let not_ready = async || daemon.readyz().await.0 == 503;
        eventually("the daemon is not ready", not_ready).await;
        all.push_str(&all_output(&daemon).await);
        all.push_str(&daemon.stop().await.join("\n"));
        assert!(all.contains("supercargo_agent_reports_total") && all.contains("[-]watch cluster failed"));
        for secret in ["n0b0dy", "s3cret", ADMIN] {
            let line = all.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{format}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_log_pipe_does_not_block_reports() {
    let (cluster, gate) = (shop(3), Gate::without_service());
    let (_home, _pipe, mut child) = DaemonBuilder::new(&cluster, &gate).start_unread();
    for n in 4..8 {
        cluster.add(web(n));
        wait_until_in_sync(&gate, &cluster, PROD).await;
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = std::sync::Mutex::new(&mut child);
    eventually("the daemon ends", async || ended.lock().unwrap().try_wait().unwrap().is_some()).await;
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
