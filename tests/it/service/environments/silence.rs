//! Silence of declared environments: one notification across replicas, restarts and outages, and the metrics.

use std::time::Duration;

use serde_json::{Value, json};
use service::{Clock, Limits};

use crate::fake::{Reply, Server};
use crate::service::bootstrap;
use crate::service::report;
use crate::service::support::test_service::eventually;
use crate::service::{ADMIN, Database, Options, READER, REPORTER, TestService, digest, form, pod};

const MORE: &str = "    environments:
      - {name: prod, silentAfter: 10m, policy: {attestations: [{flow: cart, name: unit}]}}
      - {name: idle, silentAfter: 1h}
    actions:
      - {number: 1, name: ops, environments: ['*'], triggers: [ON_SILENT_ENV, ON_REPORTING_ENV],
         targets: [{name: ops, type: WEBHOOK, url: {file: url}, secrets: [{file: secret}]}]}";

fn options(clock: &Clock, receiver: &Server) -> Options {
    let interval = Duration::from_millis(20);
    let mut limits = Limits { silence_interval: interval, ..Options::default().limits };
    limits.delivery.interval = interval;
    let files = vec![("url", receiver.url()), ("secret", "whsec-0123456789abcdef0123456789".to_owned())];
    Options {
        limits,
        bootstrap: bootstrap(1, MORE),
        clock: clock.clone(),
        allowed_internal: &["127.0.0.1/32"],
        files,
        ..Options::default()
    }
}

/// The notifications, without what differs between runs.
fn told(receiver: &Server) -> Vec<Value> {
    let told = |body: &[u8]| -> Value {
        let mut told: Value = serde_json::from_slice(body).unwrap();
        let seconds = |key: &str| told[key].as_f64().unwrap();
        let minutes = ((seconds("occurred_at") - seconds("silent_since")) / 60.0).floor();
        told["minutes"] = json!(minutes);
        for key in
            ["schema_version", "id", "action", "html_url", "merged_events", "occurred_at", "silent_since"]
        {
            told.as_object_mut().unwrap().remove(key);
        }
        told
    };
    receiver.requests().iter().map(|request| told(&request.body)).collect()
}

fn event(trigger: &str, environment: &str, snapshot: i64, cause: &Value, minutes: i64) -> Value {
    let compliance = if environment == "prod" { "COMPLIANT" } else { "UNKNOWN" };
    json!({
        "trigger": trigger, "organization": "acme", "environment": environment, "snapshot_index": snapshot,
        "compliance": compliance, "cause": cause, "artifacts": [], "artifacts_total": 0,
        "minutes": f64::from(i32::try_from(minutes).unwrap()),
    })
}

/// The value of a series of `prod`, or of another environment.
async fn gauge(service: &TestService, name: &str, environment: &str, more: &str) -> Option<String> {
    let metrics = service.metrics().await;
    let labels = format!("organization=\"acme\",environment=\"{environment}\"");
    let prefix = format!("supercargo_environment_{name}{{{labels}{more}}} ");
    let value = |line: &str| line.strip_prefix(&prefix).map(str::to_owned);
    metrics.lines().find_map(value)
}

async fn silence_is_told_once_by_replicas_and_after_restarts(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    // The clock of the other replica is 15 seconds behind.
    let (clock, late_clock) = (Clock::default(), Clock::default());
    let at = |seconds: u64| {
        clock.set_back(Duration::from_secs(180 * 60 - seconds));
        late_clock.set_back(Duration::from_secs(180 * 60 + 15 - seconds));
    };
    let is = async |service: &TestService, name: &str, value: &str| {
        gauge(service, name, "prod", "").await.as_deref() == Some(value)
    };
    let has_status = async |service: &TestService, status: &str| {
        let label = format!(",status=\"{status}\"");
        gauge(service, "compliance", "prod", &label).await.as_deref() == Some("1")
    };
    at(0);
    let service = TestService::start_with(database, options(&clock, &receiver)).await;
    let database_url = Some(service.database.url());
    let others = Options { database_url, ..options(&late_clock, &receiver) };
    let replica = TestService::start_with(Database::sqlite(), others).await;
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "all", "total": 1, "failures": 0, "errors": 0, "skipped": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    let body = || report(&[pod("p", "cart:1", 'a')]);
    service.report(REPORTER, "prod", body()).await.expect(201);
    // Not declared.
    service.report(ADMIN, "other", body()).await.expect(201);
    for one in [&service, &replica] {
        let reports = async || is(one, "silent", "0").await && is(one, "artifacts", "1").await;
        eventually("prod reports", reports).await;
        eventually("prod is compliant", async || has_status(one, "compliant").await).await;
        assert!(gauge(one, "last_report_timestamp_seconds", "prod", "").await.is_some());
        assert_eq!(gauge(one, "last_report_timestamp_seconds", "idle", "").await, None);
        assert_eq!(gauge(one, "silent", "other", "").await, None);
    }

    // For the other replica, it becomes silent in ten seconds.
    at(10 * 60 + 5);
    for one in [&service, &replica] {
        eventually("prod is silent", async || is(one, "silent", "1").await).await;
        assert!(has_status(one, "unknown").await && !has_status(one, "compliant").await);
    }
    let (silent, reported) = (json!({"type": "TIME"}), json!({"type": "REPORT", "by": "reporter"}));
    let mut expected = vec![event("ON_SILENT_ENV", "prod", 1, &silent, 10)];
    eventually("the silence is told", async || told(&receiver) == expected).await;
    replica.stop().await;
    let database = service.stop().await;

    // The silence is remembered after a restart. The report is told as later than the silence.
    let service = TestService::start_with(database, options(&late_clock, &receiver)).await;
    eventually("the metrics are served", async || is(&service, "silent", "1").await).await;
    service.report(REPORTER, "prod", body()).await.expect(200);
    expected.push(event("ON_REPORTING_ENV", "prod", 1, &reported, 10));
    eventually("the report is told", async || told(&receiver) == expected).await;
    let database = service.stop().await;

    // An outage of the service is no silence of its environments.
    at(40 * 60);
    let service = TestService::start_with(database, options(&clock, &receiver)).await;
    eventually("the metrics are served", async || is(&service, "silent", "0").await).await;
    at(50 * 60 + 50);
    expected.push(event("ON_SILENT_ENV", "prod", 1, &silent, 41));
    eventually("the next silence is told", async || told(&receiver) == expected).await;
    // An environment that was never reported is silent since its declaration.
    at(101 * 60);
    expected.push(event("ON_SILENT_ENV", "idle", 0, &silent, 101));
    eventually("the idle environment is told", async || told(&receiver) == expected).await;

    let events = service.get(READER, "/environments/acme/prod/events").await.expect(200);
    let events = events.json();
    let kinds = events.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap());
    assert_eq!(kinds.filter(|kind| kind.contains("changed")).count(), 0, "{events}");
    let recorded =
        "SELECT CAST(COUNT(*) AS TEXT) FROM events WHERE kind IN ('ON_SILENT_ENV', 'ON_REPORTING_ENV')";
    assert_eq!(service.database.rows(recorded).await, ["4"]);
}

/// A trigger that rejects the silence of the environments `bad-*`, as a defect would.
fn reject_silence(database: &Database) -> &'static str {
    if database.is_postgres() {
        "CREATE FUNCTION defect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'defect'; END $$;
         CREATE TRIGGER defect BEFORE UPDATE OF silent_since ON environments FOR EACH ROW
         WHEN (NEW.name LIKE 'bad-%') EXECUTE FUNCTION defect()"
    } else {
        "CREATE TRIGGER defect BEFORE UPDATE OF silent_since ON environments WHEN NEW.name LIKE 'bad-%'
         BEGIN SELECT RAISE(ABORT, 'defect'); END"
    }
}

async fn environments_whose_check_fails_hide_no_other_silence(database: Database) {
    const FAILING: usize = 110;
    let receiver = Server::start(|_| Reply::text(204, ""));
    let clock = Clock::default();
    let at = |minutes: u64| clock.set_back(Duration::from_mins(60 - minutes));
    at(0);
    let mut options = options(&clock, &receiver);
    let bad = (0..FAILING).map(|n| format!("      - {{name: bad-{n}, silentAfter: 1m}}\n"));
    options.bootstrap = MORE.replace("    actions:", &format!("{}    actions:", bad.collect::<String>()));
    options.bootstrap = bootstrap(1, &options.bootstrap);
    let service = TestService::start_with(database, options).await;
    service.database.execute(reject_silence(&service.database)).await;
    // Failures of the others do not restart the time after which `prod` is silent.
    at(5);
    let told = async || told(&receiver).iter().map(|event| event["environment"].clone()).collect::<Vec<_>>();
    let is_checked = async || service.metrics().await.contains("environment=\"idle\"");
    eventually("the environments are checked", is_checked).await;
    assert_eq!(told().await, [] as [Value; 0]);
    at(11);
    eventually("the silence is told", async || told().await == [json!("prod")]).await;
}

async fn environments_above_the_limit_are_counted_and_organizations_alternate(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let service = TestService::start_with(database, options(&Clock::default(), &receiver)).await;
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
        INSERT INTO environments (id, organization, name, created_at, is_declared, snapshot)
        SELECT randomblob(16), 'acme', 'e' || i, 9000000000000000, TRUE, 0 FROM n UNION ALL
        SELECT randomblob(16), 'stranger', 'theirs', 9000000000000000, TRUE, 0";
    service.database.execute(many).await;
    let omitted = async || service.metrics().await.contains("supercargo_environment_metrics_omitted 3\n");
    eventually("three environments are omitted", omitted).await;
    let metrics = service.metrics().await;
    let silent = metrics.lines().filter(|line| line.starts_with("supercargo_environment_silent{"));
    assert_eq!(silent.count(), 1_000);
    assert!(metrics.contains("environment=\"theirs\""));
}

crate::service::on_both!(
    silence_is_told_once_by_replicas_and_after_restarts,
    environments_whose_check_fails_hide_no_other_silence,
);
crate::service::on_sqlite!(environments_above_the_limit_are_counted_and_organizations_alternate);
