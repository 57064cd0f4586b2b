//! What the agent says: of a day, as JSON, and never a secret.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};

use crate::daemon::cluster::{self, Ask, Cluster, Pod, pod};
use crate::daemon::gate::{Fault, Gate};
use crate::daemon::rules::{always, on};
use crate::daemon::shop::shop;
use crate::daemon::{Daemon, PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_lost};
use crate::service::{ADMIN, Database, Running};

fn web(n: usize) -> Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

/// Each line is one JSON object.
fn objects(said: &[String]) -> Vec<Map<String, Value>> {
    said.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The log without what is another in each run; of lines that repeat each other, one.
fn redacted(said: &[String]) -> String {
    let rules = [
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
        (r#""(seconds|failures)":[0-9.e-]+"#, r#""$1":"[number]""#),
        (r"\d+(\.\d+)? ?(ns|µs|ms|s)\b", "[time]"),
        (r"after \d+ (tries|failures)", "after [number] $1"),
        (env!("CARGO_PKG_VERSION"), "[version]"),
    ];
    let rules = rules.map(|(from, to)| (Regex::new(from).unwrap(), to));
    let mut lines: Vec<String> = Vec::new();
    for mut object in objects(said) {
        let timestamp = object.remove("timestamp").unwrap();
        timestamp.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let line = Value::Object(object).to_string();
        lines.push(rules.iter().fold(line, |line, (from, to)| from.replace_all(&line, *to).into_owned()));
    }
    lines.dedup();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_day_is_short_and_says_what_happened() {
    let (cluster, gate) = (Cluster::start(), Gate::before(Running::start(Database::sqlite()).await));
    cluster.add(web(0));
    // A fortieth, so that a busy machine is no outage of its own.
    let starting = Starting::between(&cluster, &gate).hasten(40);
    let daemon = starting.args(["--log-format", "json"]).start();
    for n in 1..=10 {
        daemon.says_again("reported, new snapshot", n).await;
        cluster.add(web(n));
    }
    daemon.says_again("reported, new snapshot", 11).await;
    gate.misbehave(always(Fault::Says(503, None)));
    cluster.add(pod("shop", "job").image("registry.example.com/job:1", 'b').owner("Job", "job"));
    daemon.hears_of(12).await;
    cluster.delete("shop", "job");
    daemon.has_reported("unavailable", 4).await;
    daemon.says("prod: still not reported").await;
    gate.behave();
    nothing_was_lost(&gate, &cluster, PROD).await;
    daemon.says_again("reported, new snapshot", 13).await;
    let said = daemon.stop().await;
    insta::assert_snapshot!(redacted(&said));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_has_its_level_its_sentence_and_whom_it_is_about() {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add(web(0));
    cluster.add(pod("shop", "late").image("registry.example.com/web:1", 'a').pending());
    let args = ["--log-format", "json", "-v"];
    let daemon = Starting::between(&cluster, &gate).args(args).token_file(ADMIN).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    gate.accept_only("another");
    daemon.says("401 Unauthorized").await;
    daemon.write_token("another");
    daemon.says("reported again").await;
    cluster.misbehave(on(Ask::is_watch, always(cluster::Fault::Broken)));
    cluster.end_watches();
    daemon.says("500 Internal Server Error").await;
    cluster.behave();
    daemon.says("back after").await;
    let said = daemon.stop().await;
    let mut levels = BTreeSet::new();
    for object in objects(&said) {
        let text = |key: &str| object[key].as_str().unwrap_or_else(|| panic!("{key}: {object:?}")).to_owned();
        let (level, message) = (text("level"), text("message"));
        assert!(text("target").starts_with("supercargo::"), "{object:?}");
        assert!(!message.is_empty() && !text("timestamp").is_empty(), "{object:?}");
        // What an operator sees names what it is about, in a field of its own.
        if level != "DEBUG" && message.starts_with("prod: ") {
            assert_eq!(text("environment"), "prod", "{object:?}");
        }
        if level != "DEBUG" && message.starts_with("the cluster: ") {
            assert_eq!(text("watch"), "cluster", "{object:?}");
        }
        if level == "INFO" && message.contains(" reported, ") {
            assert!(!text("outcome").is_empty() && object["artifacts"].is_u64(), "{object:?}");
            assert_eq!(text("left_out"), "1 pod not started", "{object:?}");
        }
        if message.contains("reported again") || message.contains("back after") {
            assert!(object["failures"].is_u64() && object["seconds"].is_f64(), "{object:?}");
        }
        levels.insert(level);
    }
    assert_eq!(levels.into_iter().collect::<Vec<_>>(), ["DEBUG", "INFO", "WARN"]);
}

const OF_THE_CLUSTER: &str = "s3cret-cluster-t0ken";

/// All that anybody can see of it.
async fn shown(daemon: &Daemon) -> String {
    let mut all = daemon.said().join("\n");
    for path in ["/metrics", "/readyz", "/readyz?verbose", "/livez"] {
        all.push_str(&daemon.get(path).await.1);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_pod_s_name_and_no_token_is_shown() {
    for format in ["text", "json"] {
        let (cluster, gate) = (Cluster::start(), Gate::alone());
        cluster.require_token(OF_THE_CLUSTER);
        for (n, odd) in [web(0), web(1).pending(), web(2).ended(), web(3).failed()].into_iter().enumerate() {
            cluster.add(Pod { name: format!("n0b0dy-{n}"), ..odd });
        }
        let starting = Starting::between(&cluster, &gate).args(["--log-format", format]);
        let daemon = starting.token_file(ADMIN).start();
        holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
        let mut all = shown(&daemon).await;
        gate.accept_only("another-s3cret");
        cluster.add(Pod { name: "n0b0dy-4".to_owned(), ..web(4) });
        daemon.says("401 Unauthorized").await;
        cluster.delete("shop", "n0b0dy-4");
        daemon.write_token("another-s3cret");
        daemon.says("reported again").await;
        nothing_was_lost(&gate, &cluster, PROD).await;
        cluster.require_token("yet-another-s3cret");
        cluster.end_watches();
        daemon.says("the cluster: ").await;
        daemon.says("reports are withheld").await;
        let not_ready = async || daemon.readyz().await.0 == 503;
        eventually("it is not ready", not_ready).await;
        all.push_str(&shown(&daemon).await);
        all.push_str(&daemon.stop().await.join("\n"));
        assert!(all.contains("supercargo_agent_reports_total") && all.contains("[-]watch cluster failed"));
        for secret in ["n0b0dy", "s3cret", ADMIN] {
            let line = all.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{format}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_holds_up_nothing() {
    let (cluster, gate) = (shop(3), Gate::alone());
    let (_home, _pipe, mut child) = Starting::between(&cluster, &gate).start_unread();
    for n in 4..8 {
        cluster.add(web(n));
        holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = std::sync::Mutex::new(&mut child);
    eventually("it ends", async || ended.lock().unwrap().try_wait().unwrap().is_some()).await;
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
