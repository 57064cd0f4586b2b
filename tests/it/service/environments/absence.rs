//! Environments that run fewer artifacts than the bootstrap file expects, and tokens that create environments.

use std::time::Duration;

use model::reason::Reason;
use serde::Deserialize as _;
use serde_json::{Value, json};
use service::Limits;

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, REPORTER, TestService, form, pod};

/// A bootstrap file with these settings of `prod`.
fn declared(generation: i64, prod: &str) -> String {
    let policy = "policy: {attestations: [{flow: cart, name: unit}]}";
    bootstrap(generation, &format!("    environments: [{{name: prod, {policy}{prod}}}]"))
}

async fn start(database: Database, prod: &str) -> TestService {
    let limits = Limits { evaluation_interval: Duration::from_millis(20), ..Limits::default() };
    let options = Options { limits, bootstrap: declared(1, prod), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    attest(&service, 0..100, 0).await;
    service
}

fn fingerprint(number: usize) -> String {
    format!("{number:064x}")
}

/// Reports artifacts up to this number.
async fn report_first(service: &TestService, number: usize) {
    let pods = (0..number).map(|n| {
        let mut pod = pod(&format!("p-{n}"), "", 'a');
        pod["digests"] = json!({ format!("cart:{n}"): fingerprint(n) });
        pod
    });
    service.report(REPORTER, "prod", report(&pods.collect::<Vec<_>>())).await.expect(201);
}

/// Attests artifacts with these numbers.
async fn attest(service: &TestService, numbers: std::ops::Range<usize>, failures: u32) {
    let data = json!({
        "attestation_name": "unit", "target_artifacts": numbers.map(fingerprint).collect::<Vec<_>>(),
        "repo_info": {"name": "acme/cart"},
        "junit_results": [{"total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

/// The compliance of `prod`, and the reason if it runs too few artifacts.
async fn status(service: &TestService) -> String {
    let status = "SELECT compliance FROM environments WHERE name = 'prod'";
    let absence = "SELECT absence FROM environments WHERE name = 'prod' AND absence IS NOT NULL";
    let mut status = service.database.rows(status).await.concat();
    for absence in service.database.rows(absence).await {
        status = format!("{status}: {}", serde_json::from_str::<Reason>(&absence).unwrap());
    }
    status
}

/// The compliance of `prod` and the reason in each event about its compliance.
async fn events(service: &TestService) -> Vec<String> {
    let events = "SELECT content FROM events WHERE kind LIKE '%COMPLIANT_ENV' ORDER BY occurred_at, id";
    let event = |content: &String| {
        let content: Value = serde_json::from_str(content).unwrap();
        let text = |field: &str| content[field].as_str().unwrap_or_default().to_owned();
        let absence = Reason::deserialize(&content["absence"]).map(|reason| reason.to_string());
        let absence = absence.unwrap_or_default();
        format!("{} {} {absence}", text("trigger"), text("compliance")).trim_end().to_owned()
    };
    service.database.rows(events).await.iter().map(event).collect()
}

const EMPTY: &str = "UNKNOWN: too few running artifacts: 0 after 100, expected a drop of at most 50%";

async fn empty_report_after_many_artifacts_makes_the_environment_unknown(database: Database) {
    let service = start(database, ", maxDrop: 50").await;
    report_first(&service, 100).await;
    report_first(&service, 0).await;
    assert_eq!(status(&service).await, EMPTY);
    for page in ["/ui/acme", "/ui/acme/environments/prod"] {
        assert_contains(&Browser::read_page(&service, page).await, &[&EMPTY["UNKNOWN: ".len()..]]);
    }
    // The reason survives a restart and an unchanged report.
    let options = Options { bootstrap: declared(1, ", maxDrop: 50"), ..Options::default() };
    let service = TestService::start_with(service.stop().await, options).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(200);
    assert_eq!(status(&service).await, EMPTY);
    report_first(&service, 60).await;
    assert_eq!(status(&service).await, "COMPLIANT");
    let absence = EMPTY.replacen(':', "", 1);
    let expected = [
        "ON_COMPLIANT_ENV COMPLIANT",
        &format!("ON_NON_COMPLIANT_ENV {absence}"),
        "ON_COMPLIANT_ENV COMPLIANT",
    ];
    assert_eq!(events(&service).await, expected);
    let snapshots = "SELECT compliance FROM snapshots ORDER BY snapshot";
    assert_eq!(service.database.rows(snapshots).await, ["COMPLIANT", "UNKNOWN", "COMPLIANT"]);
}

async fn drop_is_compared_with_the_latest_snapshot_without_one(database: Database) {
    let service = start(database, ", maxDrop: 50").await;
    for (number, expected) in [
        (100, "COMPLIANT"),
        (60, "COMPLIANT"),
        (29, "UNKNOWN: too few running artifacts: 29 after 60, expected a drop of at most 50%"),
        (28, "UNKNOWN: too few running artifacts: 28 after 60, expected a drop of at most 50%"),
        (30, "COMPLIANT"),
        (15, "COMPLIANT"),
        (1, "UNKNOWN: too few running artifacts: 1 after 15, expected a drop of at most 50%"),
    ] {
        report_first(&service, number).await;
        assert_eq!(status(&service).await, expected);
    }
    // Attestations change the verdict, and not the reason.
    for (failures, compliance) in [(1, "NON-COMPLIANT"), (0, "UNKNOWN")] {
        attest(&service, 0..1, failures).await;
        let expected =
            format!("{compliance}: too few running artifacts: 1 after 15, expected a drop of at most 50%");
        eventually("the environment is evaluated", async || status(&service).await == expected).await;
    }
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let absence = "too few running artifacts: 1 after 15, expected a drop of at most 50%";
    assert_eq!(live["_embedded"]["environments"][0]["absence"], absence);
}

async fn changed_declaration_ends_an_absence(database: Database) {
    let service = start(database, ", maxDrop: 50").await;
    report_first(&service, 100).await;
    report_first(&service, 40).await;
    let dropped = "UNKNOWN: too few running artifacts: 40 after 100, expected a drop of at most 50%";
    let few = "UNKNOWN: too few running artifacts: 40, expected at least 41";
    for (generation, prod, expected) in [
        (2, ", maxDrop: 50, silentAfter: 5m", dropped),
        (3, ", maxDrop: 50, minArtifacts: 40", dropped),
        (4, ", maxDrop: 20", "COMPLIANT"),
        (5, ", maxDrop: 20, minArtifacts: 41", few),
        (6, "", "COMPLIANT"),
    ] {
        service.reload(&declared(generation, prod)).await;
        eventually(prod, async || status(&service).await == expected).await;
    }
    report_first(&service, 0).await;
    assert_eq!(status(&service).await, "COMPLIANT");
    service.reload(&declared(7, ", minArtifacts: 1")).await;
    let empty = "UNKNOWN: too few running artifacts: 0, expected at least 1";
    eventually(empty, async || status(&service).await == empty).await;
    service.reload(&bootstrap(8, "")).await;
    eventually("no policy applies", async || status(&service).await == "UNKNOWN").await;
    let changes = "SELECT change FROM audit WHERE change LIKE 'minArtifacts%' ORDER BY id";
    assert_eq!(
        service.database.rows(changes).await.last().unwrap(),
        "minArtifacts of the environment prod is unlimited, maxDrop is unlimited"
    );
}

async fn first_report_below_the_minimum_is_unknown(database: Database) {
    let service = start(database, ", minArtifacts: 1").await;
    report_first(&service, 0).await;
    let few = "too few running artifacts: 0, expected at least 1";
    assert_eq!(status(&service).await, format!("UNKNOWN: {few}"));
    report_first(&service, 1).await;
    assert_eq!(status(&service).await, "COMPLIANT");
    let expected = [&format!("ON_NON_COMPLIANT_ENV UNKNOWN {few}"), "ON_COMPLIANT_ENV COMPLIANT"];
    assert_eq!(events(&service).await, expected);
}

async fn report_token_creates_environments_only_with_permission(database: Database) {
    let file = |generation, create: &str, environments: &str| {
        bootstrap(generation, &format!("    environments: [{environments}]"))
            .replace("environments: [prod], create: true", &format!("environments: ['*']{create}"))
    };
    let options = Options { bootstrap: file(1, "", "{name: declared}"), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let denied = service.report(REPORTER, "new", report(&[])).await.expect(403);
    let message = "environment new not found (this token may not create environments: declare the environment in the \
                   bootstrap file, under environments of the organization, or set create: true for the token or its issuer's \
                   rule)";
    assert_eq!(denied.json()["message"], message);
    service.report(REPORTER, "declared", report(&[])).await.expect(201);
    service.report(ADMIN, "by-admin", report(&[])).await.expect(201);
    let names = "SELECT name FROM environments ORDER BY name";
    assert_eq!(service.database.rows(names).await, ["by-admin", "declared"]);
    // An existing environment needs no permission.
    service.report(REPORTER, "by-admin", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    service.reload(&file(2, ", create: true", "")).await;
    service.report(REPORTER, "new", report(&[])).await.expect(201);
    service.reload(&file(3, ", create: false", "")).await;
    service.report(REPORTER, "newer", report(&[])).await.expect(403);
    service.report(REPORTER, "new", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
}

crate::service::on_both!(
    empty_report_after_many_artifacts_makes_the_environment_unknown,
    drop_is_compared_with_the_latest_snapshot_without_one,
    changed_declaration_ends_an_absence,
    first_report_below_the_minimum_is_unknown,
    report_token_creates_environments_only_with_permission,
);
