//! Notifications: delivery, signatures, retries, and rejection of internal addresses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use model::Timestamp;
use model::retry::Backoff;
use serde_json::{Value, json};
use service::engine::notify::signature;
use service::{Clock, Delivery, Limits};
use sqlx::types::Uuid;
use sqlx::{Connection, PgConnection};
use store::notifications::outbox::{FailedAttempt, LeasedNotification, Recipients};
use store::{DatabaseTimeouts, Store};
use tokio_util::sync::CancellationToken;

use crate::fake::{Reply, Request, Server};
use crate::service::identity::issuers::TestClock;
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, READER, REPORTER, TestService, digest, form, pod};

const SECRET: &str = "whsec-0123456789abcdef0123456789";
const NEXT_SECRET: &str = "whsec-next-0123456789abcdef01234";

/// One action of `acme` for all triggers in `prod`, with these targets.
fn action(generation: i64, targets: &str) -> String {
    let triggers = "ON_STARTED_ARTIFACT, ON_EXITED_ARTIFACT, ON_SCALED_ARTIFACT, ON_ALLOWED_ARTIFACT, \
                    ON_NON_COMPLIANT_ENV, ON_COMPLIANT_ENV";
    let more = format!(
        "    environments: [{{name: prod, policy: {{attestations: [{{flow: cart, name: unit}}]}}}}]
    actions: [{{number: 7, name: tell ops, environments: [prod], triggers: [{triggers}], targets: [{targets}]}}]"
    );
    bootstrap(generation, &more)
}

const WEBHOOK: &str = "{name: ops, type: WEBHOOK, url: {file: ops.url}, secrets: [{file: secret}]}";

fn limits() -> Limits {
    let backoff =
        Backoff { initial: Duration::from_millis(5), max: Duration::from_millis(20), ..Backoff::default() };
    let interval = Duration::from_millis(20);
    Limits { delivery: Delivery { backoff, interval, ..Delivery::default() }, ..Limits::default() }
}

fn options(targets: &str, files: &[(&'static str, String)]) -> Options {
    let mut files = files.to_vec();
    files.extend([("secret", SECRET.to_owned()), ("next", NEXT_SECRET.to_owned())]);
    let allowed_internal = &["127.0.0.1/32"][..];
    Options { limits: limits(), bootstrap: action(1, targets), allowed_internal, files, ..Options::default() }
}

async fn start(database: Database, receiver: &Server) -> TestService {
    let url = format!("{}/hook?key=credential", receiver.url());
    TestService::start_with(database, options(WEBHOOK, &[("ops.url", url)])).await
}

/// Received notifications; checks their signatures.
fn received(receiver: &Server) -> Vec<Value> {
    receiver.requests().iter().map(|request| verify(request, SECRET)).collect()
}

fn verify(request: &Request, secret: &str) -> Value {
    let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
    let (id, signed) = (header(signature::ID), header(signature::SIGNATURE));
    assert!(signature::verify(&secret.to_owned().into(), &signed, &id, &request.body), "{signed}");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["id"], id);
    body
}

fn triggers(notifications: &[Value]) -> Vec<&str> {
    notifications.iter().map(|notification| notification["trigger"].as_str().unwrap()).collect()
}

/// The action as listed for this token.
async fn listed(service: &TestService, token: &str) -> Value {
    let list = service.get(token, "/organizations/acme/environments_notifications").await.expect(200).json();
    list[0].clone()
}

/// A pod of a Deployment, as the name of its `ReplicaSet` tells.
fn deployed(image: &str) -> Value {
    let mut pod = pod("cart-7d9f8b6c5d-x2b4k", image, 'a');
    pod["owners"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d9f8b6c5d"}]);
    pod
}

async fn event_is_delivered_signed_and_once(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let service = start(database, &receiver).await;
    assert_eq!(listed(&service, READER).await["is_failing"], Value::Null);
    service.report(REPORTER, "prod", report(&[deployed("cart:1")])).await.expect(201);
    service.report(ADMIN, "test", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    eventually("two arrive", async || receiver.requests().len() >= 2).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    eventually("four arrive", async || receiver.requests().len() >= 4).await;
    let all = received(&receiver);
    let expected = ["ON_NON_COMPLIANT_ENV", "ON_STARTED_ARTIFACT", "ON_COMPLIANT_ENV", "ON_EXITED_ARTIFACT"];
    assert_eq!(triggers(&all), expected);
    let ids: BTreeSet<_> = all.iter().map(|n| n["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 4);
    let owners = json!([{"namespace": "shop", "kind": "Deployment", "name": "cart", "is_inferred": true}]);
    // The artifact that exited was owned before.
    assert_eq!(all[3]["artifacts"][0]["owners"], owners);
    let mut event = all[0].clone();
    assert!(event["occurred_at"].as_f64().unwrap() > 1.7e9);
    event["occurred_at"] = json!(0);
    let path = event["html_url"].as_str().unwrap().strip_prefix(&service.base).unwrap();
    assert_contains(&Browser::read_page(&service, path).await, &["<h1><bdi>prod</bdi></h1>"]);
    let reason = json!({
        "type": "missing_attestation", "flow_name": "cart", "attestation_name": "unit",
        "rule": {"policy_name": "environment:prod", "policy_version": 1, "number": 1},
        "text": "environment:prod v1: unit of the flow cart is missing",
    });
    let expected = json!({
        "schema_version": 1, "id": event["id"], "action": {"number": 7, "name": "tell ops"},
        "html_url": event["html_url"], "merged_events": 0, "trigger": "ON_NON_COMPLIANT_ENV", "occurred_at": 0, "organization": "acme", "environment": "prod",
        "snapshot_index": 1, "compliance": "NON-COMPLIANT", "cause": {"type": "REPORT", "by": "reporter"},
        "artifacts": [{
            "fingerprint": digest('a'), "name": "cart:1", "compliance": "NON-COMPLIANT", "reasons": [reason],
            "pods": 1, "pods_before": 0, "owners": owners,
        }],
        "artifacts_total": 1,
    });
    assert_eq!(event, expected);
    // The example has the same shape.
    event["id"] = json!("01a2a0f3-6c54-7d10-b0a5-1f6d0c6c2f5e");
    event["occurred_at"] = json!(1_790_000_000.5);
    event["html_url"] = json!("https://compliance.example.com/ui/acme/environments/prod");
    crate::service::assert_committed("notification.json", &format!("{event:#}\n"));
    for request in receiver.requests() {
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/hook", "key=credential"));
        assert_eq!(request.headers["content-type"], "application/json");
    }
    let is_recorded = async || listed(&service, READER).await["is_failing"] == false;
    eventually("the delivery is listed", is_recorded).await;
    let sent = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NOT NULL";
    eventually("all are recorded", async || service.database.rows(sent).await == ["4"]).await;
    assert_eq!(receiver.requests().len(), 4);
}

async fn failed_notification_is_retried_with_the_same_identifier(database: Database) {
    let status = Arc::new(AtomicU16::new(500));
    let responses = Arc::clone(&status);
    let receiver = Server::start(move |_| match responses.load(Ordering::Relaxed) {
        // Redirects are not followed.
        302 => Reply::text(302, "").with("location", "/elsewhere"),
        0 => Reply::Reset,
        status => Reply::text(status, "no"),
    });
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    for next in [302, 0, 404, 200] {
        let before = receiver.requests().len();
        eventually("the notification is retried", async || receiver.requests().len() > before + 2).await;
        assert_eq!(listed(&service, READER).await["is_failing"], true, "{next}");
        status.store(next, Ordering::Relaxed);
    }
    eventually("the delivery succeeds", async || listed(&service, READER).await["is_failing"] == false).await;
    let action = listed(&service, READER).await;
    let at = |field: &str| action[field].as_f64().unwrap();
    assert!(at("last_success_timestamp") > at("last_failure_timestamp"), "{action}");
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NULL";
    eventually("both arrive", async || service.database.rows(open).await == ["0"]).await;
    let ids: BTreeSet<_> = received(&receiver).iter().map(|n| n["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert!(receiver.requests().iter().all(|request| request.path == "/hook"));
}

async fn target_that_names_a_time_gets_nothing_before(database: Database) {
    const WAITS: [u64; 3] = [40, 100, 3600];
    let (clock, time) = TestClock::new();
    let reply = Arc::new(Mutex::new((429, "40".to_owned())));
    let current = Arc::clone(&reply);
    let busy = Server::start(move |_| {
        let (status, retry_after) = current.lock().unwrap().clone();
        Reply::text(status, "").with("retry-after", &retry_after)
    });
    let other = Server::start(|_| Reply::text(200, ""));
    let targets = format!("{WEBHOOK}, {}", WEBHOOK.replace("ops", "other"));
    let mut options = options(&targets, &[("ops.url", busy.url()), ("other.url", other.url())]);
    options.limits.delivery.max_pause = Duration::ZERO;
    options.limits.delivery.backoff.max_retry_after = Delivery::default().backoff.max_retry_after;
    options.clock = clock;
    let mut before = time.now();
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let until = "SELECT CAST(paused_until AS TEXT) FROM targets WHERE name = 'ops'";
    let until = async || service.database.rows(until).await.concat().parse::<u64>().unwrap() / 1_000_000;
    let mut last = 0;
    for (n, wait) in WAITS.into_iter().enumerate() {
        eventually("the pause is recorded", async || until().await > last).await;
        last = until().await;
        assert!((before + wait - 1..=time.now() + wait).contains(&last), "{wait}: {last} after {before}");
        let target = listed(&service, READER).await["targets"][0].clone();
        assert_eq!(target["last_error"], if n == 1 { "HTTP status 503" } else { "HTTP status 429" });
        // The other notification waits, too.
        eventually("the other target gets both", async || other.requests().len() == 2).await;
        assert_eq!(busy.requests().len(), n + 1);
        before = time.now() + wait;
        let date = UNIX_EPOCH + Duration::from_secs(before + WAITS[1]);
        *reply.lock().unwrap() = match n {
            0 => (503, httpdate::fmt_http_date(date)),
            // Followed for an hour at most.
            1 => (429, "86400".to_owned()),
            _ => (200, String::new()),
        };
        time.advance(wait);
    }
    let sent = async || listed(&service, READER).await["targets"][0].get("last_error").is_none();
    eventually("the delivery succeeds", sent).await;
    eventually("both arrive", async || busy.requests().len() == WAITS.len() + 2).await;
}

async fn undeliverable_notification_is_dropped_with_its_last_error(database: Database) {
    let receiver = Server::start(|_| Reply::text(503, "no"));
    let url = receiver.url();
    let mut options = options(WEBHOOK, &[("ops.url", url)]);
    options.limits.delivery.max_age = Duration::from_millis(30);
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let dropped = "SELECT last_error FROM notifications WHERE dropped_at IS NOT NULL";
    let errors = ["HTTP status 503"; 2];
    eventually("both are dropped", async || service.database.rows(dropped).await == errors).await;
    eventually("the metric is updated", async || {
        service.metrics().await.contains("supercargo_notifications_waiting 0")
    })
    .await;
}

async fn both_secrets_verify_during_rotation(database: Database) {
    let receiver = Server::start(|_| Reply::text(200, ""));
    let service = start(database, &receiver).await;
    let both = WEBHOOK.replace("[{file: secret}]", "[{file: next}, {file: secret}]");
    service.reload(&action(2, &both)).await;
    assert!(service.metrics().await.contains("supercargo_bootstrap_generation 2"));
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    eventually("both arrive", async || receiver.requests().len() == 2).await;
    for request in receiver.requests() {
        verify(&request, SECRET);
        verify(&request, NEXT_SECRET);
    }
    // A changed secret creates no new version of the action.
    assert_eq!(service.database.rows("SELECT name FROM actions").await, ["tell ops"]);
}

async fn unresponsive_target_does_not_delay_others(database: Database) {
    let (stalled, responsive) = (Server::start(|_| Reply::Stall), Server::start(|_| Reply::text(200, "")));
    let targets = format!(
        "{}, {{name: chat, type: SLACK, url: {{file: chat.url}}, channel: {{name: \"#ops\"}}}}",
        WEBHOOK.replace("ops.url", "stalled.url")
    );
    let files = [("stalled.url", stalled.url()), ("chat.url", responsive.url())];
    let service = TestService::start_with(database, options(&targets, &files)).await;
    for digit in ['a', 'b', 'c'] {
        service.report(REPORTER, "prod", report(&[pod("p", "<!here>:1", digit)])).await.expect(201);
    }
    // Three starts, two exits and one non-compliant environment.
    eventually("six arrive", async || responsive.requests().len() == 6).await;
    let body: Value = serde_json::from_slice(&responsive.requests()[0].body).unwrap();
    let reason = "environment:prod v1: unit of the flow cart is missing";
    let line = format!("&lt;!here&gt;:1 {}: {reason}", &digest('a')[..12]);
    let text = format!(
        "```\nprod (acme) is non-compliant: 1 artifact\n{line}\nsnapshot 1; caused by a report by reporter\n```\n{}/ui/acme/environments/prod",
        service.base
    );
    assert_eq!(body["text"], text);
    // The stalled target gets one notification at a time.
    assert_eq!(stalled.requests().len(), 1);
    let action = listed(&service, READER).await;
    let chat = action["targets"].as_array().unwrap().iter().find(|target| target["type"] == "SLACK").unwrap();
    assert_eq!(chat["context"], json!({"channel_name": "#ops"}));
}

/// The body of the request to this path for the first event of the others, without what differs between runs.
fn told(receiver: &Server, service: &TestService, path: &str, n: usize) -> Value {
    let requests: Vec<_> = receiver.requests().into_iter().filter(|request| request.path == path).collect();
    let body = String::from_utf8(requests[n].body.to_vec()).unwrap();
    let mut body: Value =
        serde_json::from_str(&body.replace(&service.base, "https://compliance.example.com")).unwrap();
    if let Some(payload) = body.get_mut("payload") {
        let at = payload["timestamp"].as_str().unwrap();
        assert!(at.starts_with("20") && at.ends_with('Z'), "{at}");
        payload["timestamp"] = json!("2026-09-21T14:13:20.500Z");
    }
    body
}

const PEOPLE: &str =
    "    policies: [{name: prod rules, text: \"_schema: https://example.com/schemas/policy/environment/v1\\n\
    artifacts: {attestations: [{name: unit, type: junit}]}\"}]
    environments: [{name: prod, silentAfter: 10m, policies: [prod rules]}]
    actions:
      - {number: 1, name: people, environments: [prod], triggers: [TRIGGERS], targets: [
          {name: s, type: SLACK, url: {file: slack}}, {name: t, type: TEAMS, url: {file: teams}},
          {name: p, type: PAGERDUTY, url: {file: pagerduty}, routingKey: {file: routing-key}}]}";

async fn people_see_artifact_flow_commit_author_reason_and_links(database: Database) {
    let failing = Arc::new(AtomicU16::new(0));
    let failures = Arc::clone(&failing);
    let receiver = Server::start(move |request| match request.path.as_str() {
        "/pagerduty" if failures.load(Ordering::Relaxed) > 0 => Reply::text(500, ""),
        _ => Reply::text(202, ""),
    });
    let files: Vec<_> = ["slack", "teams", "pagerduty"]
        .into_iter()
        .map(|name| (name, format!("{}/{name}", receiver.url())))
        .chain([("routing-key", "0123456789abcdef0123456789abcdef".to_owned())])
        .collect();
    let triggers = "ON_NON_COMPLIANT_ENV, ON_COMPLIANT_ENV, ON_SILENT_ENV, ON_REPORTING_ENV";
    let clock = Clock::default();
    clock.set_back(Duration::from_hours(1));
    let mut options = Options {
        bootstrap: bootstrap(1, &PEOPLE.replace("TRIGGERS", triggers)),
        clock: clock.clone(),
        ..options("", &files)
    };
    options.limits.silence_interval = Duration::from_millis(20);
    let service = TestService::start_with(database, options).await;
    let attest = async |name: &str, failures: u32| {
        let commit = json!({
            "sha1": "0123456789abcdef0123456789abcdef01234567", "author": "Kim <kim@example.com>",
            "url": "https://github.com/acme/cart/commit/0123456789abcdef0123456789abcdef01234567",
        });
        let data = json!({
            "attestation_name": name, "artifact_fingerprint": digest('a'), "repo_info": {"name": "acme/cart"},
            "git_commit_info": commit,
            "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0, "skipped": 0}],
        });
        service.attest(ADMIN, "cart", "build-7", form(&data)).await.expect(201);
    };
    attest("lint", 0).await;
    let image = "registry.example.com/cart:1 <!here> *b* [x](https://evil.example)";
    let body = || report(&[deployed(image)]);
    service.report(REPORTER, "prod", body()).await.expect(201);
    let arrived = async |n: usize| {
        let count = |path: &str| receiver.requests().iter().filter(|request| request.path == path).count();
        eventually("the notifications arrive", async || {
            ["/slack", "/teams", "/pagerduty"].iter().all(|path| count(path) >= n)
        })
        .await;
    };
    arrived(1).await;
    for name in ["slack", "teams", "pagerduty"] {
        let body = told(&receiver, &service, &format!("/{name}"), 0);
        crate::service::assert_committed(&format!("notification.{name}.json"), &format!("{body:#}\n"));
    }
    attest("unit", 0).await;
    arrived(2).await;
    clock.set_back(Duration::from_mins(49));
    arrived(3).await;
    service.report(REPORTER, "prod", body()).await.expect(200);
    arrived(4).await;
    let key = |trigger| format!("supercargo/acme/prod/{trigger}");
    let expected = [
        ("trigger", "ON_NON_COMPLIANT_ENV"),
        ("resolve", "ON_NON_COMPLIANT_ENV"),
        ("trigger", "ON_SILENT_ENV"),
        ("resolve", "ON_SILENT_ENV"),
    ];
    for (n, (action, condition)) in expected.into_iter().enumerate() {
        let body = told(&receiver, &service, "/pagerduty", n);
        assert_eq!((&body["event_action"], &body["dedup_key"]), (&json!(action), &json!(key(condition))));
        assert_eq!(body["routing_key"], "0123456789abcdef0123456789abcdef");
    }
    // An event that is late does not open the incident again that a later event has resolved.
    failing.store(1, Ordering::Relaxed);
    attest("unit", 1).await;
    arrived(5).await;
    attest("unit", 0).await;
    failing.store(0, Ordering::Relaxed);
    eventually("all are sent", async || all_are_sent(&service).await).await;
    let count = receiver.requests().iter().filter(|request| request.path == "/pagerduty").count();
    assert_eq!(told(&receiver, &service, "/pagerduty", count - 1)["event_action"], "resolve");
    let list = listed(&service, ADMIN).await;
    let shown = |kind: &str| {
        let targets = list["targets"].as_array().unwrap().iter();
        targets
            .filter(|target| target["type"] == kind)
            .map(|target| target["webhook"].clone())
            .next()
            .unwrap()
    };
    assert_eq!(shown("TEAMS"), format!("{}/teams", receiver.url()));
    assert_eq!(shown("PAGERDUTY"), format!("{}/pagerduty", receiver.url()));
    assert!(!list.to_string().contains("0123456789abcdef0123456789abcdef"), "{list}");
}

/// An action for non-compliant artifacts, with a target of each kind but mail.
const ARTIFACTS: &str =
    "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}], approval: true}}]
    actions:
      - {number: 7, name: artifacts, environments: [prod], triggers: [ON_NON_COMPLIANT_ARTIFACT], targets: [
          {name: s, type: SLACK, url: {file: slack}}, {name: t, type: TEAMS, url: {file: teams}},
          {name: w, type: WEBHOOK, url: {file: webhook}, secrets: [{file: secret}]},
          {name: p, type: PAGERDUTY, url: {file: pagerduty}, routingKey: {file: routing-key}}]}";

const PATHS: [&str; 4] = ["slack", "teams", "webhook", "pagerduty"];

async fn start_artifacts(database: Database, receiver: &Server) -> TestService {
    let files = PATHS.map(|name| (name, format!("{}/{name}", receiver.url())));
    let files = files.into_iter().chain([("routing-key", "0123456789abcdef0123456789abcdef".to_owned())]);
    let options = Options { bootstrap: bootstrap(1, ARTIFACTS), ..options("", &files.collect::<Vec<_>>()) };
    TestService::start_with(database, options).await
}

/// The bodies of the requests to this path.
fn bodies(receiver: &Server, path: &str) -> Vec<Value> {
    let requests = receiver.requests().into_iter().filter(|request| request.path[1..] == *path);
    requests.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

async fn non_compliant_artifact_is_told_once_also_in_a_non_compliant_environment(database: Database) {
    let receiver = Server::start(|_| Reply::text(202, ""));
    let service = start_artifacts(database, &receiver).await;
    let image = |name: &str, digit| {
        let mut pod = pod(name, &format!("registry.example.com/shop/{name}:1.6.0"), digit);
        pod["podName"] = json!(format!("{name}-1"));
        pod
    };
    let arrived = async |n: usize| {
        let all = async || PATHS.iter().all(|path| bodies(&receiver, path).len() >= n);
        eventually("the notifications arrive", all).await;
    };
    let attest = async |failures: u32| {
        let data = json!({
            "attestation_name": "unit", "artifact_fingerprint": digest('b'),
            "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0, "skipped": 0}],
        });
        service.attest(ADMIN, "cart", "build-7", form(&data)).await.expect(201);
    };
    service.report(REPORTER, "prod", report(&[image("api", 'a')])).await.expect(201);
    arrived(1).await;
    service.report(REPORTER, "prod", report(&[image("api", 'a'), image("web", 'b')])).await.expect(201);
    arrived(2).await;
    // It stays non-compliant: for another reason, and with more pods.
    attest(1).await;
    let mut second = image("web", 'b');
    second["podName"] = json!("web-2");
    let pods = [image("api", 'a'), image("web", 'b'), second];
    service.report(REPORTER, "prod", report(&pods)).await.expect(200);
    attest(0).await;
    // It was gone.
    service.report(REPORTER, "prod", report(&[image("api", 'a')])).await.expect(201);
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    arrived(3).await;
    let both = [image("api", 'a'), image("web", 'b'), image("job", 'c')];
    service.report(REPORTER, "prod", report(&both)).await.expect(201);
    arrived(4).await;
    let expected = [
        "Untested image in prod: shop/api:1.6.0",
        "Untested image in prod: shop/web:1.6.0",
        "shop/web:1.6.0 in prod is not approved",
        "Untested image in prod: shop/job:1.6.0",
    ];
    let told = |path: &str, pointer: &str| -> Vec<Value> {
        bodies(&receiver, path).iter().map(|body| body.pointer(pointer).unwrap().clone()).collect()
    };
    assert_eq!(told("slack", "/blocks/0/text/text"), expected);
    assert_eq!(told("teams", "/attachments/0/content/body/0/inlines/0/text"), expected);
    assert_eq!(told("pagerduty", "/payload/summary"), expected);
    assert_eq!(told("pagerduty", "/event_action"), ["trigger"; 4]);
    let keys: BTreeSet<_> = told("pagerduty", "/dedup_key").iter().map(ToString::to_string).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(told("webhook", "/trigger"), ["ON_NON_COMPLIANT_ARTIFACT"; 4]);
    assert_eq!(told("webhook", "/artifacts/0/fingerprint"), ['a', 'b', 'b', 'c'].map(digest));
    // The list of events has the start of an artifact only.
    let events = service.read("/environments/acme/prod/events?per_page=50").await;
    let kinds: BTreeSet<_> = events.as_array().unwrap().iter().map(|event| event["type"].as_str()).collect();
    let expected = ["changed", "environment-non-compliant", "exited", "started-non-compliant"];
    assert_eq!(kinds, expected.map(Some).into());
}

async fn test_of_an_action_tells_which_targets_accept_it(database: Database) {
    let failing = Arc::new(AtomicU16::new(500));
    let status = Arc::clone(&failing);
    let receiver = Server::start(move |request| match request.path.as_str() {
        "/teams" => Reply::text(status.load(Ordering::Relaxed), "no"),
        _ => Reply::text(202, ""),
    });
    let service = start_artifacts(database, &receiver).await;
    let tested = service.program(ADMIN, "action test 7").await;
    tested.expect(6, &["1 target of action 7 did not accept the test"]);
    for line in ["s       SLACK      delivered", "t       TEAMS      not delivered: HTTP status 500"] {
        assert!(tested.stdout.contains(line), "{tested:#?}");
    }
    assert_eq!(listed(&service, READER).await["is_failing"], true);
    failing.store(200, Ordering::Relaxed);
    let tested = service.program(ADMIN, "action test 7 -o json").await;
    let results: Value = serde_json::from_str(&tested.expect(0, &[]).stdout).unwrap();
    let teams = json!({"name": "t", "type": "TEAMS", "is_delivered": true, "error": null});
    assert_eq!(results[2], teams);
    assert_eq!(listed(&service, READER).await["is_failing"], false);
    // A failed test is not retried.
    assert_eq!(PATHS.map(|path| bodies(&receiver, path).len()), [2; 4]);
    let headline = "test of an action of acme: nothing happened";
    assert_eq!(bodies(&receiver, "slack")[0]["blocks"][0]["text"]["text"], headline);
    let webhook = bodies(&receiver, "webhook").remove(0);
    assert_eq!(webhook["trigger"], "ON_TEST");
    assert_eq!((&webhook["organization"], &webhook["tested_by"]), (&json!("acme"), &json!("admin")));
    let incident = &bodies(&receiver, "pagerduty")[0];
    assert_eq!(
        (&incident["event_action"], &incident["payload"]["severity"]),
        (&json!("trigger"), &json!("info"))
    );
    let results = "SELECT COALESCE(last_error, 'sent') FROM notifications WHERE kind = 'ON_TEST'
                   AND COALESCE(sent_at, dropped_at) IS NOT NULL ORDER BY 1";
    let expected = [&["HTTP status 500"][..], &["sent"; 7]].concat();
    assert_eq!(service.database.rows(results).await, expected);
    let page = Browser::read_page(&service, "/ui/acme/actions/7").await;
    assert_contains(&page, &["ON_TEST", "HTTP status 500"]);
    let audit = service.get(ADMIN, "/audit/acme").await.expect(200).text;
    assert!(audit.contains("tested the action 7"), "{audit}");
    service.program(READER, "action test 7").await.expect(3, &["requires a token with role admin"]);
    service.program(ADMIN, "action test 8").await.expect(4, &["action 8 not found"]);
    service.program(ADMIN, "action test 0").await.expect(2, &[]);
}

async fn backlog_of_unresponsive_targets_does_not_delay_others(database: Database) {
    let (stalled, responsive) = (Server::start(|_| Reply::Stall), Server::start(|_| Reply::text(200, "")));
    let named = |name: &str, url: &str| {
        WEBHOOK.replace("name: ops", &format!("name: {name}")).replace("ops.url", url)
    };
    let targets = ["a", "b", "c"].map(|name| named(name, "stalled.url")).join(", ");
    let targets = format!("{targets}, {}", named("responsive", "responsive.url"));
    let files = [("stalled.url", stalled.url()), ("responsive.url", responsive.url())];
    let mut options = options(&targets, &files);
    // Half of the senders, the share of one organization, are fewer than the stalled targets.
    options.limits.delivery.max_targets = 4;
    options.limits.delivery.timeout = Duration::from_secs(5);
    let hour = Duration::from_hours(1);
    options.limits.delivery.backoff = Backoff { initial: hour, max: hour, ..Backoff::default() };
    let service = TestService::start_with(database, options).await;
    for digit in "abcdef".chars() {
        service.report(REPORTER, "prod", report(&[pod("p", "cart:1", digit)])).await.expect(201);
    }
    // Six starts, five exits and one non-compliant environment.
    eventually("all arrive", async || responsive.requests().len() == 12).await;
    // Each stalled target got one attempt, not one per notification.
    assert!(stalled.requests().len() <= 3, "{}", stalled.requests().len());
}

/// A receiver that answers no request until the token is cancelled.
fn blocked_receiver(release: &CancellationToken) -> Server {
    let release = release.clone();
    Server::start(move |_| {
        let release = release.clone();
        Reply::Later(Box::pin(async move {
            release.cancelled().await;
            Reply::text(204, "")
        }))
    })
}

/// Attempts that do not time out while a receiver is blocked.
fn patient(targets: &str, files: &[(&'static str, String)]) -> Options {
    let mut options = options(targets, files);
    options.limits.delivery.timeout = Duration::from_mins(2);
    options.limits.delivery.lease = Duration::from_mins(4);
    options
}

/// The number of events that notifications stand for, and the number of events that were recorded.
async fn counted(service: &TestService) -> [i64; 2] {
    let count = async |sql: &str| service.database.rows(sql).await[0].parse().unwrap();
    [
        count("SELECT CAST(SUM(1 + merged_events) AS TEXT) FROM notifications").await,
        count("SELECT CAST(COUNT(*) AS TEXT) FROM events").await,
    ]
}

async fn all_are_sent(service: &TestService) -> bool {
    let open = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE sent_at IS NULL";
    service.database.rows(open).await == ["0"]
}

async fn compliance_is_sent_first_and_repeated_events_are_merged(database: Database) {
    let release = CancellationToken::new();
    let receiver = blocked_receiver(&release);
    let service = TestService::start_with(database, patient(WEBHOOK, &[("ops.url", receiver.url())])).await;
    for digit in ['a', 'b'] {
        let data = json!({
            "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest(digit),
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    eventually("an attempt is in progress", async || receiver.requests().len() == 1).await;
    // 20 starts and 19 exits of compliant artifacts, then a non-compliant one.
    for digit in ["ab"; 10].concat().chars() {
        service.report(REPORTER, "prod", report(&[pod("p", "cart:1", digit)])).await.expect(201);
    }
    service.report(REPORTER, "prod", report(&[pod("p", "cart:2", 'c')])).await.expect(201);
    release.cancel();
    eventually("all are sent", async || all_are_sent(&service).await).await;

    let all = received(&receiver);
    assert_eq!(triggers(&all)[..2], ["ON_COMPLIANT_ENV", "ON_NON_COMPLIANT_ENV"]);
    assert_eq!((all[0]["merged_events"].clone(), all[1]["merged_events"].clone()), (json!(0), json!(0)));
    for trigger in ["ON_STARTED_ARTIFACT", "ON_EXITED_ARTIFACT"] {
        let of: Vec<_> = all.iter().filter(|notification| notification["trigger"] == trigger).collect();
        let merged: Vec<_> =
            of.iter().map(|notification| notification["merged_events"].as_i64().unwrap()).collect();
        let total = if trigger == "ON_STARTED_ARTIFACT" { 21 } else { 20 };
        assert_eq!(merged, [0, 0, 0, 0, 0, 0, 0, 0, 0, total - 10], "{trigger}");
        // In the order of the events; the last one is for the latest event.
        assert!(of.is_sorted_by_key(|notification| notification["occurred_at"].as_f64().unwrap()));
        assert_eq!(of[9]["snapshot_index"], 22);
    }
    assert_eq!((all.len(), counted(&service).await), (22, [43, 43]));
    assert!(service.metrics().await.contains("supercargo_notifications_merged_total 21\n"));
    let page = Browser::read_page(&service, "/ui/acme/actions/7").await;
    assert_contains(&page, &["<p>and 11 more of this kind</p>", "<p>and 10 more of this kind</p>"]);
}

async fn concurrent_environments_and_senders_lose_no_event(database: Database) {
    let release = CancellationToken::new();
    let receiver = blocked_receiver(&release);
    let chat = "{name: chat, type: SLACK, url: {file: ops.url}, channel: {name: c}}";
    let mut options = patient(&format!("{WEBHOOK}, {chat}"), &[("ops.url", receiver.url())]);
    options.bootstrap = options.bootstrap.replace("environments: [prod]", "environments: [\"*\"]");
    let service = TestService::start_with(database, options).await;
    let swap = async |environment: &str| {
        for digit in ["ab"; 15].concat().chars() {
            service.report(ADMIN, environment, report(&[pod("p", "cart:1", digit)])).await.expect(201);
        }
    };
    tokio::join!(swap("prod"), swap("test"), swap("other"));
    release.cancel();
    tokio::join!(swap("prod"), swap("test"), swap("other"));
    eventually("all are sent", async || all_are_sent(&service).await).await;
    let [notified, events] = counted(&service).await;
    assert_eq!(notified, 2 * events);
}

/// PostgreSQL only: SQLite has one writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn notification_that_is_being_leased_is_not_merged() {
    let release = CancellationToken::new();
    let receiver = blocked_receiver(&release);
    let options = patient(WEBHOOK, &[("ops.url", receiver.url())]);
    let service = TestService::start_with(Database::postgres().await, options).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    eventually("an attempt is in progress", async || receiver.requests().len() == 1).await;
    let swap = async |digit| {
        service.report(REPORTER, "prod", report(&[pod("p", "cart:1", digit)])).await.expect(201);
    };
    for digit in ["ab"; 6].concat().chars() {
        swap(digit).await;
    }
    let mut leasing = PgConnection::connect(&service.database.direct_url()).await.unwrap();
    let mut lease = leasing.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM notifications FOR UPDATE").execute(&mut *lease).await.unwrap();
    // The reports do not wait for the lease: the first is not merged, and the second is merged into the first.
    swap('a').await;
    swap('b').await;
    lease.rollback().await.unwrap();
    let waiting =
        "SELECT kind, COUNT(*)::text, SUM(merged_events)::text FROM notifications WHERE attempts = 0
                   GROUP BY kind ORDER BY kind";
    let merged = ["ON_EXITED_ARTIFACT|11|2", "ON_NON_COMPLIANT_ENV|1|0", "ON_STARTED_ARTIFACT|11|3"];
    assert_eq!(service.database.rows(waiting).await, merged);
    release.cancel();
    eventually("all are sent", async || all_are_sent(&service).await).await;
    let [notified, events] = counted(&service).await;
    assert_eq!(notified, events);
}

/// PostgreSQL only: SQLite has one writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn replicas_that_fail_on_one_target_do_not_deadlock() {
    let receiver = Server::start(|_| Reply::text(500, ""));
    let service = start(Database::postgres().await, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let database = service.stop().await;
    let ids: Vec<Uuid> = database
        .rows("SELECT id::text FROM notifications")
        .await
        .iter()
        .map(|id| id.parse().unwrap())
        .collect();
    let target = database.rows("SELECT id::text FROM targets").await[0].parse().unwrap();
    let store = Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let now = Timestamp::from_micros(i64::MAX / 2);
    let fail = async |notification: Uuid| {
        let mut transaction = store.write().await.unwrap();
        let leased = LeasedNotification {
            organization: "acme".to_owned(),
            id: notification,
            target,
            leased_until: now,
            environment: Uuid::nil(),
            content: String::new(),
            attempts: 1,
            merged_events: 0,
            recipients: Recipients::new(),
        };
        let failed = FailedAttempt {
            error: "no",
            at: now,
            retry_at: now,
            paused_until: None,
            drop_before: now,
            recipients: &leased.recipients,
        };
        store::notifications::outbox::record_failure(&mut transaction, &leased, failed).await.unwrap();
        transaction.commit().await.unwrap();
    };
    // Both replicas begin while the target is locked.
    let mut blocking = PgConnection::connect(&database.direct_url()).await.unwrap();
    let mut lock = blocking.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM targets FOR UPDATE").execute(&mut *lock).await.unwrap();
    let unlock = async {
        let blocked = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("both wait", async || database.rows(blocked).await == ["2"]).await;
        lock.rollback().await.unwrap();
    };
    tokio::join!(fail(ids[0]), fail(ids[1]), unlock);
    let dropped = "SELECT CAST(COUNT(*) AS TEXT) FROM notifications WHERE dropped_at IS NOT NULL";
    assert_eq!(database.rows(dropped).await, ["2"]);
}

/// Otherwise, the second could arrive while the first is delayed, such as the end of an incident before its start.
async fn target_gets_one_notification_at_a_time_from_all_replicas(database: Database) {
    let receiver = Server::start(|_| Reply::text(500, ""));
    let hour = Duration::from_hours(1);
    let mut options = options(WEBHOOK, &[("ops.url", receiver.url())]);
    // Its task leases nothing after the start.
    options.limits.delivery.max_targets = 0;
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let store =
        Store::open(&service.database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let now = Timestamp::from_micros(1_000_000_000);
    let due = async |now| {
        store::notifications::outbox::due_targets(&mut store.read().await.unwrap(), now, hour, hour)
            .await
            .unwrap()
    };
    let target = due(now).await.remove(0);
    let lease = async |now| {
        let is_due = !due(now).await.is_empty();
        let mut transaction = store.write().await.unwrap();
        let leased =
            store::notifications::outbox::lease(&mut transaction, [&target], now, hour).await.unwrap().pop();
        transaction.commit().await.unwrap();
        assert_eq!(is_due, leased.is_some());
        leased
    };
    let first = lease(now).await.unwrap();
    assert!(lease(now.later(hour / 2)).await.is_none());
    let mut transaction = store.write().await.unwrap();
    store::notifications::outbox::record_sent(&mut transaction, &first, None, now).await.unwrap();
    transaction.commit().await.unwrap();
    let second = lease(now).await.unwrap();
    assert_ne!(second.id, first.id);
    // The lease of a replica that was killed ends, also if the clock is set back.
    assert_eq!(lease(now.later(hour)).await.unwrap().id, second.id);
    service.database.execute("UPDATE notifications SET due_at = 0").await;
    assert_eq!(lease(Timestamp::from_micros(1)).await.unwrap().id, second.id);
}

async fn future_timestamp_does_not_delay_notifications(database: Database) {
    let receiver = Server::start(|_| Reply::text(200, ""));
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    let ahead = "UPDATE environments SET changed_at = changed_at + 3600000000, last_report_at = last_report_at + 3600000000";
    service.database.execute(ahead).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let started = async || triggers(&received(&receiver)).contains(&"ON_STARTED_ARTIFACT");
    eventually("the notification arrives", started).await;
}

async fn closed_organization_has_no_waiting_notifications(database: Database) {
    let receiver = Server::start(|_| Reply::text(500, ""));
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let waiting = async || service.metrics().await.contains("supercargo_notifications_waiting 2");
    eventually("two notifications wait", waiting).await;
    let complete = bootstrap(2, "");
    let (_, stranger) = complete.split_once("  - name: stranger").unwrap();
    service.reload(&format!("generation: 2\norganizations:\n  - name: stranger{stranger}")).await;
    let empty = async || service.metrics().await.contains("supercargo_notifications_waiting 0");
    eventually("no notification waits", empty).await;
}

async fn internal_address_is_rejected_in_every_notation(database: Database) {
    let internal = Server::start(|_| Reply::text(200, ""));
    let port = internal.url().rsplit(':').next().unwrap().to_owned();
    let hosts = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0"];
    let names = ["one", "two", "three", "four", "five", "six"];
    let targets =
        names.map(|name| WEBHOOK.replace("name: ops", &format!("name: {name}")).replace("ops.url", name));
    let files: Vec<_> =
        names.into_iter().zip(hosts).map(|(name, host)| (name, format!("http://{host}:{port}/x"))).collect();
    let options = Options { allowed_internal: &[], ..options(&targets.join(", "), &files) };
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let errors = "SELECT DISTINCT t.name, n.last_error FROM notifications n JOIN targets t ON t.id = n.target
                    WHERE n.last_error IS NOT NULL";
    eventually("all attempts fail", async || service.database.rows(errors).await.len() >= 6).await;
    for error in service.database.rows(errors).await {
        assert!(error.contains("is internal: allow it with --allow-internal"), "{error}");
    }
    assert!(internal.requests().is_empty());
}

async fn target_url_is_redacted_except_for_admins(database: Database) {
    let receiver = Server::start(|_| Reply::text(200, ""));
    let service = start(database, &receiver).await;
    let webhook = async |token: &str, path: &str| {
        let response = service.get(token, path).await.expect(200);
        let json = response.json();
        let action = if json.is_array() { json[0].clone() } else { json };
        action["targets"][0]["webhook"].as_str().unwrap().to_owned()
    };
    for path in ["/organizations/acme/environments_notifications", "/actions/acme/7"] {
        assert_eq!(webhook(ADMIN, path).await, format!("{}/hook?key=credential", receiver.url()));
        assert_eq!(webhook(READER, path).await, receiver.url());
    }
    // The database contains neither the credential nor a secret.
    for table in ["targets", "actions", "audit", "notifications", "events"] {
        let columns = match table {
            "targets" | "events" => "content",
            "audit" => "change",
            "notifications" => "COALESCE(last_error, '')",
            _ => "name",
        };
        let rows = service.database.rows(&format!("SELECT {columns} FROM {table}")).await.concat();
        assert!(!rows.contains("credential") && !rows.contains("whsec"), "{table}: {rows}");
    }
}

async fn removed_target_gets_no_further_notifications(database: Database) {
    let receiver = Server::start(|_| Reply::text(500, ""));
    let service = start(database, &receiver).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    eventually("an attempt is made", async || !receiver.requests().is_empty()).await;
    service.reload(&bootstrap(2, "")).await;
    let gone = service.get(READER, "/actions/acme/7").await.expect(404);
    assert!(gone.text.contains("action 7 not found"), "{}", gone.text);
    eventually("no notification waits", async || {
        service.metrics().await.contains("supercargo_notifications_waiting 0")
    })
    .await;
    // The number of a removed action cannot be reused.
    service.reload(&action(3, WEBHOOK)).await;
    service.get(READER, "/actions/acme/7").await.expect(404);
    assert!(service.metrics().await.contains("supercargo_bootstrap_loads_total{outcome=\"failed\"} 1"));
}

#[test]
fn committed_schema_matches_the_code() {
    let schema = format!("{:#}\n", service::engine::notify::schema());
    crate::service::assert_committed("notification.schema.json", &schema);
}

crate::service::on_both!(
    event_is_delivered_signed_and_once,
    failed_notification_is_retried_with_the_same_identifier,
    people_see_artifact_flow_commit_author_reason_and_links,
    target_that_names_a_time_gets_nothing_before,
    undeliverable_notification_is_dropped_with_its_last_error,
    backlog_of_unresponsive_targets_does_not_delay_others,
    compliance_is_sent_first_and_repeated_events_are_merged,
    concurrent_environments_and_senders_lose_no_event,
    future_timestamp_does_not_delay_notifications,
    target_gets_one_notification_at_a_time_from_all_replicas,
    non_compliant_artifact_is_told_once_also_in_a_non_compliant_environment,
    test_of_an_action_tells_which_targets_accept_it,
    closed_organization_has_no_waiting_notifications,
    removed_target_gets_no_further_notifications,
);

crate::service::on_sqlite!(
    both_secrets_verify_during_rotation,
    unresponsive_target_does_not_delay_others,
    internal_address_is_rejected_in_every_notation,
    target_url_is_redacted_except_for_admins,
);
