//! `docs/reference/metrics.md` lists exactly the metrics that agent and service expose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::live::watch;
use regex::Regex;
use reqwest::Method;
use serde_json::json;

use crate::daemon::support::cluster::{self, ApiRequest, Cluster, pod};
use crate::daemon::support::gate::{Fault, Gate};
use crate::daemon::support::rules::{always, on};
use crate::daemon::{DaemonBuilder, PROD, assert_no_loss, eventually, wait_until_in_sync};
use crate::fake::{Reply, Server};
use crate::service::bootstrap;
use crate::service::{self, ADMIN, Database, Options, Response, TestService};

/// A metric of the document or of a process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    /// Label names.
    labels: BTreeSet<String>,
    /// Label values.
    label_values: BTreeSet<String>,
}

/// The metrics in these chapters of the document.
fn page(chapters: &[&str]) -> BTreeMap<String, Metric> {
    let page = include_str!("../../../docs/reference/metrics.md");
    let quoted = Regex::new("`([^`]+)`").unwrap();
    let all =
        |text: &str| quoted.captures_iter(text).map(|value| value[1].to_owned()).collect::<BTreeSet<_>>();
    let mut metrics = BTreeMap::new();
    for chapter in page.split("\n## ").skip(1).filter(|text| chapters.contains(&text.lines().next().unwrap()))
    {
        for row in chapter.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, labels, description] = cells.try_into().unwrap();
            let (labels, mut label_values) = (all(labels), all(description));
            label_values.retain(|value| !labels.contains(value));
            let name = name.trim_matches('`').to_owned();
            assert!(metrics.insert(name, Metric { kind: kind.to_owned(), labels, label_values }).is_none());
        }
    }
    metrics
}

/// The metrics of a response, with the document's naming.
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
            assert!(line.starts_with(&current), "{line} is listed below {current}");
            let metric = metrics.get_mut(&current).unwrap();
            for found in label.captures_iter(line).filter(|found| &found[1] != "le") {
                metric.labels.insert(found[1].to_owned());
                metric.label_values.insert(found[2].to_owned());
            }
        }
    }
    metrics
}

/// Asserts that both sides have the same metrics, types and labels.
fn assert_same(page: &BTreeMap<String, Metric>, served: &BTreeMap<String, Metric>) {
    let names = |metrics: &BTreeMap<String, Metric>| metrics.keys().cloned().collect::<BTreeSet<_>>();
    let (left, right) = (names(page), names(served));
    assert_eq!(left.difference(&right).collect::<Vec<_>>(), Vec::<&String>::new(), "not served");
    assert_eq!(right.difference(&left).collect::<Vec<_>>(), Vec::<&String>::new(), "not documented");
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
async fn agent_metrics_match_the_document() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(web(0));
    // The first request of an ID token fails.
    let requests = AtomicUsize::new(0);
    let github = Server::start(move |_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::text(503, ""),
        _ => Reply::json(200, format!(r#"{{"value": "{ADMIN}"}}"#)),
    });
    let daemon = DaemonBuilder::new(&cluster, &gate)
        .time_scale(200)
        .args(["--oidc", "github"])
        .env("ACTIONS_ID_TOKEN_REQUEST_URL", &github.url())
        .env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "job")
        .start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    let header = ("x-nothing", "");
    let outcomes = [
        (Fault::NewSnapshot, "new_snapshot"),
        (Fault::Foreign(204, header, ""), "accepted"),
        (Fault::Status(401, None), "unauthorized"),
        (Fault::Status(404, None), "not_found"),
        (Fault::Status(400, None), "refused"),
        (Fault::Status(500, None), "unavailable"),
        (Fault::Reset, "unreachable"),
        (Fault::Stall, "stalled"),
        (Fault::AcceptThenCut, "broken_off"),
        (Fault::Foreign(302, header, ""), "foreign"),
    ];
    for (n, (fault, outcome)) in (1..).zip(outcomes) {
        gate.inject(always(fault));
        cluster.add(web(n));
        let before = daemon.report_count(outcome).await;
        daemon.wait_for_reports(outcome, before + 1).await;
        gate.clear_faults();
    }
    daemon.wait_for_reports("no_token", 1).await;
    daemon.wait_for_reports("unchanged", 1).await;
    cluster.modify("shop", "web-1", cluster::Pod::ended);
    cluster.delete("shop", "web-1");
    let is_counted = async |kind: &str| daemon.count("supercargo_agent_watch_events_total", kind).await > 0;
    for kind in ["added", "modified", "deleted", "bookmark"] {
        eventually(kind, async || is_counted(kind).await).await;
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
        cluster.inject(on(ApiRequest::is_watch, always(fault)));
        cluster.end_watches();
        eventually(reason, async || restarted(reason).await).await;
        cluster.clear_faults();
        eventually("a watch is open", async || cluster.open_watches() == 1).await;
    }
    assert_no_loss(&gate, &cluster, PROD).await;

    let page = page(&["The agent", "Both"]);
    let served = served(&daemon.get("/metrics").await.1);
    assert_same(&page, &served);
    let values = |label_values: &BTreeSet<String>| {
        let is_value = |word: &&String| !["prod", "cluster", "namespaces"].contains(&word.as_str());
        label_values.iter().filter(is_value).cloned().collect::<BTreeSet<_>>()
    };
    let restarts: BTreeSet<_> =
        watch::RestartReason::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    for (name, metric) in &served {
        match name.as_str() {
            "supercargo_build_info" => {}
            // A scheduled relist happens only after six hours.
            "supercargo_agent_watch_restarts_total" => {
                assert_eq!(values(&page[name].label_values), restarts);
                assert!(values(&metric.label_values).is_subset(&restarts), "{metric:?}");
            }
            _ => assert_eq!(values(&metric.label_values), values(&page[name].label_values), "{name}"),
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_metrics_match_the_document() {
    let mut options = Options::default();
    options.limits.silence_interval = Duration::from_millis(20);
    let service = TestService::start_with(Database::sqlite(), options).await;
    let pod = [service::pod("web", "registry.example.com/web:1", 'a')];
    service.report(ADMIN, "prod", service::report(&pod)).await.expect(201);
    for failures in [0, 1] {
        let results = [json!({"name": "unit", "total": 1, "failures": failures, "errors": 0, "skipped": 0})];
        let data = json!({
            "attestation_name": "unit", "junit_results": results, "repo_info": {"name": "acme/cart"},
        });
        let request = service.request(Method::POST, ADMIN, "/attestations/acme/cart/trail/t/junit");
        Response::from_request(request.multipart(service::form(&data))).await.expect(201);
    }
    let data = json!({"attestation_name": "sbom", "type_name": "sbom", "attestation_data": {}});
    let request = service.request(Method::POST, ADMIN, "/attestations/acme/cart/trail/t/system");
    Response::from_request(request.multipart(service::form(&data))).await.expect(201);
    let declared = "    environments: [{name: prod}]\n    issuers: [{name: ci, issuer: 'https://127.0.0.1:1', audience: supercargo, \
                  rules: [{claims: {sub: a}, role: read}]}]\n";
    service.reload(&bootstrap(2, declared)).await;
    service.reload("generation: none").await;
    for name in ["issuer_down", "environment_compliance"] {
        let is_served = async || service.metrics().await.contains(&format!("supercargo_{name}{{"));
        eventually(name, is_served).await;
    }
    let page = page(&["The service", "Both"]);
    let served = served(&service.metrics().await);
    assert_same(&page, &served);
    for name in ["attestations_total", "database_connections", "bootstrap_loads_total"] {
        let name = format!("supercargo_{name}");
        assert_eq!(served[&name].label_values, page[&name].label_values, "{name}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_alerts_exist_before_the_first_event() {
    let (cluster, gate) = (Cluster::start(), Gate::without_service());
    cluster.add(web(0));
    let daemon = DaemonBuilder::new(&cluster, &gate).start();
    wait_until_in_sync(&gate, &cluster, PROD).await;
    // `increase` ignores a series that starts at 1, so the first event would raise no alert.
    let increase = Regex::new(r"increase\((supercargo_agent_\w+)").unwrap();
    let alerts = include_str!("../../../charts/supercargo/alerts/agent.yaml");
    let counted: Vec<_> = increase.captures_iter(alerts).map(|found| found[1].to_owned()).collect();
    assert_eq!(counted.len(), 2);
    let metrics = daemon.metrics().await;
    for name in counted {
        let series = metrics.keys().find(|key| key.split('{').next() == Some(&name));
        assert!(series.is_some(), "{name}");
    }
    daemon.stop().await;
}
