//! `docs/metrics.md` says what is served, and what it says is served.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use reqwest::Method;
use serde_json::json;
use supercargo::domain::live::watch;

use crate::daemon::cluster::{self, Ask, Cluster, pod};
use crate::daemon::gate::{Fault, Gate};
use crate::daemon::rules::{always, on};
use crate::daemon::{PROD, Starting, eventually, holds_what_the_cluster_holds, nothing_was_lost};
use crate::service::{self, ADMIN, Answer, Database, Running, bootstrap};

/// A metric, as the page or a process has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    /// Names of labels.
    labels: BTreeSet<String>,
    /// Words that are values of labels.
    words: BTreeSet<String>,
}

/// The metrics of these chapters of the page.
fn page(chapters: &[&str]) -> BTreeMap<String, Metric> {
    let page = include_str!("../../../docs/metrics.md");
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let all = |text: &str| quoted.captures_iter(text).map(|word| word[1].to_owned()).collect::<BTreeSet<_>>();
    let mut metrics = BTreeMap::new();
    for chapter in page.split("\n## ").skip(1).filter(|text| chapters.contains(&text.lines().next().unwrap()))
    {
        for row in chapter.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, labels, says] = cells.try_into().unwrap();
            let (labels, mut words) = (all(labels), all(says));
            words.retain(|word| !labels.contains(word));
            let name = name.trim_matches('`').to_owned();
            assert!(metrics.insert(name, Metric { kind: kind.to_owned(), labels, words }).is_none());
        }
    }
    metrics
}

/// The metrics of an answer, under the names that the page gives them.
fn served(text: &str) -> BTreeMap<String, Metric> {
    let label = Regex::new(r#"(\w+)="((?:[^"\\]|\\.)*)""#).unwrap();
    let mut metrics = BTreeMap::<String, Metric>::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            current = format!("{name}{suffix}");
            metrics.insert(current.clone(), Metric { kind: kind.to_owned(), ..Metric::default() });
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&current), "{line} stands below {current}");
            let metric = metrics.get_mut(&current).unwrap();
            for found in label.captures_iter(line).filter(|found| &found[1] != "le") {
                metric.labels.insert(found[1].to_owned());
                metric.words.insert(found[2].to_owned());
            }
        }
    }
    metrics
}

/// Each is on both sides, with its type and its labels.
fn agree(page: &BTreeMap<String, Metric>, served: &BTreeMap<String, Metric>) {
    let names = |metrics: &BTreeMap<String, Metric>| metrics.keys().cloned().collect::<BTreeSet<_>>();
    let (left, right) = (names(page), names(served));
    assert_eq!(left.difference(&right).collect::<Vec<_>>(), Vec::<&String>::new(), "not served");
    assert_eq!(right.difference(&left).collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    for (name, metric) in served {
        let page = &page[name];
        assert_eq!(metric.kind, page.kind, "{name}");
        assert_eq!(metric.labels, page.labels, "{name}");
    }
}

fn web(n: usize) -> cluster::Pod {
    pod("shop", &format!("web-{n}")).image("registry.example.com/web:1", n)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_has_the_metrics_of_the_agent_with_their_labels_and_words() {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add(web(0));
    let daemon = Starting::between(&cluster, &gate).hasten(200).token_file(ADMIN).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    let nothing = ("x-nothing", "");
    let outcomes = [
        (Fault::NewSnapshot, "new_snapshot"),
        (Fault::Foreign(204, nothing, ""), "accepted"),
        (Fault::Says(401, None), "unauthorized"),
        (Fault::Says(404, None), "not_found"),
        (Fault::Says(400, None), "refused"),
        (Fault::Says(500, None), "unavailable"),
        (Fault::Reset, "unreachable"),
        (Fault::Stall, "stalled"),
        (Fault::AnswerCut, "broken_off"),
        (Fault::Foreign(302, nothing, ""), "foreign"),
    ];
    for (n, (fault, outcome)) in (1..).zip(outcomes) {
        gate.misbehave(always(fault));
        cluster.add(web(n));
        let before = daemon.reports(outcome).await;
        daemon.has_reported(outcome, before + 1).await;
        gate.behave();
    }
    std::fs::remove_file(daemon.home().join("token")).unwrap();
    daemon.has_reported("no_token", 1).await;
    daemon.write_token(ADMIN);
    daemon.has_reported("unchanged", 1).await;
    cluster.modify("shop", "web-1", cluster::Pod::ended);
    cluster.delete("shop", "web-1");
    let seen = async |kind: &str| daemon.count("supercargo_agent_watch_events_total", kind).await > 0;
    for kind in ["added", "modified", "deleted", "bookmark"] {
        eventually(kind, async || seen(kind).await).await;
    }

    let restarted = async |reason: &str| {
        daemon.count("supercargo_agent_watch_restarts_total", &format!("reason=\"{reason}\"")).await > 0
    };
    for (fault, reason) in [
        (cluster::Fault::Expired, "expired"),
        (cluster::Fault::Broken, "refused"),
        (cluster::Fault::Reset, "unreachable"),
        (cluster::Fault::Silent, "silent"),
        (cluster::Fault::CutAfter(1), "broken_off"),
        (cluster::Fault::Garbage, "garbled"),
        (cluster::Fault::CloseAfterFrames(0), "ended"),
    ] {
        cluster.misbehave(on(Ask::is_watch, always(fault)));
        cluster.end_watches();
        eventually(reason, async || restarted(reason).await).await;
        cluster.behave();
        eventually("it watches", async || cluster.open_watches() == 1).await;
    }
    nothing_was_lost(&gate, &cluster, PROD).await;

    let page = page(&["The agent", "Both"]);
    let served = served(&daemon.get("/metrics").await.1);
    agree(&page, &served);
    let of = |words: &BTreeSet<String>| {
        let said = |word: &&String| !["prod", "cluster"].contains(&word.as_str());
        words.iter().filter(said).cloned().collect::<BTreeSet<_>>()
    };
    let restarts: BTreeSet<_> = watch::Restart::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    for (name, metric) in &served {
        match name.as_str() {
            "supercargo_build_info" => {}
            // A list for no other reason comes after six hours.
            "supercargo_agent_watch_restarts_total" => {
                assert_eq!(of(&page[name].words), restarts);
                assert!(of(&metric.words).is_subset(&restarts), "{metric:?}");
            }
            _ => assert_eq!(of(&metric.words), of(&page[name].words), "{name}"),
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_has_the_metrics_of_the_service_with_their_labels_and_words() {
    let service = Running::start(Database::sqlite()).await;
    let pod = [service::pod("web", "registry.example.com/web:1", 'a')];
    service.report(ADMIN, "prod", service::report(&pod)).await.expect(201);
    for failures in [0, 1] {
        let results = [json!({"name": "unit", "total": 1, "failures": failures, "errors": 0, "skipped": 0})];
        let data = json!({
            "attestation_name": "unit", "junit_results": results, "repo_info": {"name": "acme/cart"},
        });
        let request = service.request(Method::POST, ADMIN, "/attestations/acme/cart/trail/t/junit");
        Answer::of(request.multipart(service::form(&data))).await.expect(201);
    }
    service.reload(&bootstrap(2, "")).await;
    service.reload("generation: none").await;
    let page = page(&["The service", "Both"]);
    let served = served(&service.metrics().await);
    agree(&page, &served);
    for name in ["attestations_total", "database_connections", "bootstrap_loads_total"] {
        let name = format!("supercargo_{name}");
        assert_eq!(served[&name].words, page[&name].words, "{name}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_alert_counts_is_there_before_there_is_anything_to_count() {
    let (cluster, gate) = (Cluster::start(), Gate::alone());
    cluster.add(web(0));
    let daemon = Starting::between(&cluster, &gate).start();
    holds_what_the_cluster_holds(&gate, &cluster, PROD).await;
    // A series that begins at 1 has no increase: the first of them would raise no alert.
    let increase = Regex::new(r"increase\((supercargo_agent_\w+)").unwrap();
    let page = include_str!("../../../docs/metrics.md");
    let counted: Vec<_> = increase.captures_iter(page).map(|found| found[1].to_owned()).collect();
    assert_eq!(counted.len(), 2);
    let metrics = daemon.metrics().await;
    for name in counted {
        let series = metrics.keys().find(|key| key.split('{').next() == Some(&name));
        assert!(series.is_some(), "{name}");
    }
    daemon.stop().await;
}
