//! Verdicts and events: each change of policy or evidence changes the compliance and is recorded once.

use std::time::{Duration, SystemTime};

use model::Timestamp;
use serde_json::{Value, json};
use service::{Clock, Limits};
use store::{DatabaseTimeouts, Store};

use crate::service::report;
use crate::service::support::browser::Browser;
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, ATTESTER, Database, REPORTER, TestService, digest, form, in_words, pod};

/// A bootstrap file with these settings of `prod` and these approvals of the flow `cart`.
fn declared(generation: i64, prod: &str, approvals: &str) -> String {
    let more = format!(
        "    environments: [{{name: prod, {prod}}}]
    flows: [{{name: cart, approvals: [{approvals}]}}]"
    );
    bootstrap(generation, &more)
}

const UNIT: &str = "policy: {attestations: [{flow: cart, name: unit}]}";

fn options(bootstrap: String) -> Options {
    Options { bootstrap, ..Options::default() }
}

/// Attests the artifact of this digit, from the repository `acme/cart`.
async fn attest(service: &TestService, flow: &str, name: &str, digit: char, failures: u32) {
    let data = json!({
        "attestation_name": name, "artifact_fingerprint": digest(digit), "repo_info": {"name": "acme/cart"},
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ADMIN, flow, "t", form(&data)).await.expect(201);
}

/// All events in order.
async fn events(service: &TestService) -> Vec<String> {
    service.database.rows("SELECT kind FROM events ORDER BY occurred_at, id").await
}

/// Events after the first `seen`, which it advances.
async fn new_events(service: &TestService, seen: &mut usize) -> Vec<String> {
    let mut events = events(service).await;
    let new = events.split_off(*seen);
    *seen += new.len();
    new
}

/// The compliance of each live artifact of `acme/cart`.
async fn compliance(service: &TestService) -> Vec<String> {
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let artifacts = live["live_artifacts"].as_array().unwrap().iter();
    artifacts.map(|artifact| artifact["compliance"].as_str().unwrap().to_owned()).collect()
}

async fn each_compliance_change_is_recorded_once(database: Database) {
    let service = TestService::start_with(database, options(declared(1, UNIT, ""))).await;
    let mut seen = 0;
    // An attestation of this name in another flow does not count.
    attest(&service, "web", "unit", 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(new_events(&service, &mut seen).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    assert_eq!(compliance(&service).await, ["NON-COMPLIANT"]);
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_COMPLIANT_ENV"]);
    assert_eq!(compliance(&service).await, ["COMPLIANT"]);
    // A repeated report and attestations that are not required cause no event.
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(200);
    attest(&service, "cart", "lint", 'a', 1).await;
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(new_events(&service, &mut seen).await, Vec::<String>::new());
    // A later failure counts.
    attest(&service, "cart", "unit", 'a', 1).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    let allowed = format!("{UNIT}, allowed: [{{artifact: {}, reason: audit, author: kim}}]", digest('a'));
    service.reload(&declared(2, &allowed, "")).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_ALLOWED_ARTIFACT", "ON_COMPLIANT_ENV"]);
    assert_eq!(compliance(&service).await, ["COMPLIANT"]);
    let two = [pod("p", "cart:1", 'a'), pod("q", "cart:1", 'a')];
    service.report(REPORTER, "prod", report(&two)).await.expect(200);
    assert_eq!(new_events(&service, &mut seen).await, ["ON_SCALED_ARTIFACT"]);
    service.reload(&declared(3, UNIT, "")).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    service.reload(&declared(4, "silentAfter: 1h", "")).await;
    assert_eq!(new_events(&service, &mut seen).await, Vec::<String>::new());
    assert_eq!(compliance(&service).await, ["UNKNOWN"]);
    service.reload(&declared(5, UNIT, "")).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    assert_eq!(new_events(&service, &mut seen).await, ["ON_EXITED_ARTIFACT", "ON_COMPLIANT_ENV"]);
    // Each snapshot stores its compliance.
    let snapshots = "SELECT s.compliance FROM snapshots s ORDER BY s.snapshot";
    assert_eq!(service.database.rows(snapshots).await, ["NON-COMPLIANT", "COMPLIANT"]);
    let verdicts = "SELECT compliance FROM verdicts ORDER BY from_at";
    let expected =
        ["NON-COMPLIANT", "COMPLIANT", "NON-COMPLIANT", "COMPLIANT", "NON-COMPLIANT", "NON-COMPLIANT"];
    assert_eq!(service.database.rows(verdicts).await, expected);
}

/// The compliance and reasons of all open verdicts.
async fn reasons(service: &TestService) -> Vec<String> {
    let verdicts = "SELECT e.name || ' ' || v.compliance || ' ' || v.reasons FROM verdicts v
                      JOIN environments e ON e.id = v.environment WHERE v.until_at IS NULL ORDER BY e.name";
    in_words(service.database.rows(verdicts).await)
}

async fn attestation_counts_only_within_the_limits_of_each_environment(database: Database) {
    let limited = |limits: &str| format!("policy: {{attestations: [{{flow: cart, name: unit{limits}}}]}}");
    let file = |generation, min: u32| {
        bootstrap(
            generation,
            &format!(
                "    environments: [{{name: prod, {}}}, {{name: stage, {}}}, {{name: test, {}}}]",
                limited(&format!(", min_tests: {min}")),
                limited(", max_skipped: 2"),
                limited("")
            ),
        )
    };
    let service = TestService::start_with(database, options(file(1, 10))).await;
    let attest = async |suites: &[(u32, u32)]| {
        let results: Vec<_> = suites
            .iter()
            .map(|(total, skipped)| json!({"total": total, "skipped": skipped, "failures": 0, "errors": 0}))
            .collect();
        let data = json!({
            "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": results,
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    };
    let (few, skipped) = (
        "prod NON-COMPLIANT [\"environment:prod v1: unit of the flow cart has too few tests: 9, expected at least 10\"]",
        "stage NON-COMPLIANT [\"environment:stage v1: unit of the flow cart has too many skipped tests: 3, expected at most 2\"]",
    );
    let (prod, stage, test) = ("prod COMPLIANT []", "stage COMPLIANT []", "test COMPLIANT []");
    attest(&[(8, 3), (4, 0)]).await;
    for environment in ["prod", "stage", "test"] {
        service.report(ADMIN, environment, report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    }
    assert_eq!(reasons(&service).await, [few, skipped, test]);
    attest(&[(8, 2), (4, 0)]).await;
    assert_eq!(reasons(&service).await, [prod, stage, test]);
    attest(&[(9, 0)]).await;
    assert_eq!(reasons(&service).await, [few, stage, test]);
    service.reload(&file(2, 9)).await;
    assert_eq!(reasons(&service).await, [prod, stage, test]);
    let page = Browser::read_page(&service, "/ui/acme/environments/prod").await;
    assert!(page.contains("unit of the flow cart must pass, have at least 9 tests that ran"), "{page}");
}

/// The clock of the other replica is 18 seconds behind.
async fn exception_that_ended_for_one_replica_stays_ended_for_another(database: Database) {
    let end = Timestamp::from_micros(
        i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap()
            - 2_000_000,
    )
    .iso_8601();
    let allowed =
        format!("allowed: [{{artifact: {}, reason: audit, author: kim, expires: {end}}}]", digest('a'));
    let declared = declared(1, &format!("{UNIT}, {allowed}"), "");
    let service = TestService::start_with(database, options(declared.clone())).await;
    let clock = Clock::default();
    clock.set_back(Duration::from_secs(18));
    let database_url = Some(service.database.url());
    let late = Options { database_url, clock, ..options(declared) };
    let late = TestService::start_with(Database::sqlite(), late).await;
    let mut seen = 0;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(new_events(&service, &mut seen).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:1", 'a')];
    late.report(REPORTER, "prod", report(&pods)).await.expect(200);
    assert_eq!(new_events(&service, &mut seen).await, ["ON_SCALED_ARTIFACT"]);
    attest(&late, "cart", "unit", 'a', 1).await;
    assert_eq!(new_events(&service, &mut seen).await, Vec::<String>::new());
    assert_eq!(compliance(&service).await, ["NON-COMPLIANT"]);
}

/// The second replica, whose clock is an hour behind, applies the next file.
async fn latest_state_of_an_approval_is_that_of_the_latest_file(database: Database) {
    let approval = |state: &str| {
        let (artifact, base) = (digest('a'), digest('b'));
        let by = "approvals: [{by: kim, at: 2026-09-01T12:00:00Z}]";
        format!("{{number: 2, artifact: {artifact}, base: {base}, name: cart, state: {state}, {by}}}")
    };
    let file = |generation, state: &str| declared(generation, "policy: {approval: true}", &approval(state));
    let service = TestService::start_with(database, options(file(1, "PENDING"))).await;
    let clock = Clock::default();
    clock.set_back(Duration::from_hours(1));
    let late = Options { clock, ..options(file(2, "APPROVED")) };
    let service = TestService::start_with(service.stop().await, late).await;
    assert_eq!(service.read("/approvals/acme/cart/2").await["state"], "APPROVED");
}

async fn approval_applies_to_its_environment_or_to_any(database: Database) {
    let policy = "policy: {approval: true}";
    let approval = |number: i64, place: &str, state: &str| {
        format!(
            "{{number: {number}, artifact: {}, base: {}, name: cart, state: {state}, {place}
              approvals: [{{by: kim, at: 2026-09-01T12:00:00Z}}]}}",
            digest('a'),
            digest('b')
        )
    };
    let (other, pending) = (approval(1, "environment: test,", "APPROVED"), approval(2, "", "PENDING"));
    let both = format!("{other}, {pending}");
    let service = TestService::start_with(database, options(declared(1, policy, &both))).await;
    let mut seen = 0;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(new_events(&service, &mut seen).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    service.reload(&declared(2, policy, &format!("{other}, {}", approval(2, "", "APPROVED")))).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_COMPLIANT_ENV"]);
    // An approval that is removed from the file is withdrawn.
    service.reload(&declared(3, policy, &other)).await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_NON_COMPLIANT_ENV"]);
    let withdrawn = service.read("/approvals/acme/cart/2").await;
    assert_eq!((&withdrawn["state"], &withdrawn["environment"]), (&json!("UNAPPROVED"), &Value::Null));
    service
        .reload(&declared(4, policy, &format!("{other}, {}", approval(3, "environment: prod,", "APPROVED"))))
        .await;
    assert_eq!(new_events(&service, &mut seen).await, ["ON_COMPLIANT_ENV"]);
}

async fn status_of_an_environment_follows_from_its_attested_and_other_artifacts(database: Database) {
    let service = TestService::start_with(database, options(declared(1, UNIT, ""))).await;
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:2", 'b'), pod("r", "cart:3", 'c')];
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    let mut seen = 0;
    new_events(&service, &mut seen).await;
    // Each attestation changes one verdict; the last one of each row also changes the status.
    for (attestations, expected) in [
        (&[('a', 0), ('b', 0)][..], vec![]),
        (&[('c', 0)], vec!["ON_COMPLIANT_ENV"]),
        (&[('c', 0), ('a', 1)], vec!["ON_NON_COMPLIANT_ENV"]),
        (&[('b', 1), ('a', 0)], vec![]),
        (&[('b', 0)], vec!["ON_COMPLIANT_ENV"]),
    ] {
        for (artifact, failures) in attestations {
            attest(&service, "cart", "unit", *artifact, *failures).await;
        }
        assert_eq!(new_events(&service, &mut seen).await, expected, "{attestations:?}");
    }
    // A report counts all artifacts again.
    attest(&service, "cart", "unit", 'b', 1).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(
        new_events(&service, &mut seen).await,
        ["ON_NON_COMPLIANT_ENV", "ON_EXITED_ARTIFACT", "ON_COMPLIANT_ENV"]
    );
}

async fn report_evaluates_changed_artifacts_and_all_if_verdicts_may_be_outdated(database: Database) {
    let service = TestService::start_with(database, options(declared(1, UNIT, ""))).await;
    for artifact in ['a', 'b', 'c', 'd'] {
        attest(&service, "cart", "unit", artifact, 0).await;
    }
    let run = async |artifacts: &[char]| {
        let pods: Vec<_> =
            artifacts.iter().map(|digit| pod(&format!("p-{digit}"), &format!("{digit}:1"), *digit)).collect();
        service.report(REPORTER, "prod", report(&pods)).await.expect(201);
        let mut compliance = compliance(&service).await;
        compliance.sort_unstable();
        compliance
    };
    assert_eq!(run(&['a', 'b']).await, ["COMPLIANT"; 2]);
    // Only an evaluation would change this verdict back.
    service.database.execute("UPDATE verdicts SET compliance = 'NON-COMPLIANT'").await;
    assert_eq!(run(&['a', 'c']).await, ["COMPLIANT", "NON-COMPLIANT"]);
    for outdated in [
        "INSERT INTO evaluation_queue (environment, organization, cause, queued_at)
         SELECT id, organization, '{\"type\":\"BOOTSTRAP\"}', 5 FROM environments",
        "UPDATE environments SET evaluate_at = evaluated_at + 3600000000",
        // With a clock that was set back afterwards.
        "UPDATE environments SET changed_at = changed_at + 60000000",
    ] {
        service
            .database
            .execute("UPDATE verdicts SET compliance = 'NON-COMPLIANT' WHERE until_at IS NULL")
            .await;
        service.database.execute(outdated).await;
        assert_eq!(run(&['a', 'd']).await, ["COMPLIANT"; 2], "{outdated}");
        service.database.execute("DELETE FROM evaluation_queue").await;
        assert_eq!(run(&['a', 'b', 'c']).await, ["COMPLIANT"; 3], "{outdated}");
    }
}

async fn environment_that_waits_for_its_evaluation_shows_when_it_was_last_evaluated(database: Database) {
    let interval = std::time::Duration::from_hours(1);
    let limits = Limits { evaluation_interval: interval, ..Limits::default() };
    let service =
        TestService::start_with(database, Options { limits, ..options(declared(1, UNIT, "")) }).await;
    attest(&service, "cart", "unit", 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let live = async || service.read("/repos/acme/live-artifacts/acme/cart").await;
    let page = async |path: &str| Browser::read_page(&service, path).await;
    assert_eq!(live().await["_embedded"]["environments"][0].get("last_evaluated_at"), None);
    assert!(!page("/ui/acme").await.contains("last evaluated"));
    // Another replica applies a bootstrap file.
    service
        .database
        .execute(
            "INSERT INTO evaluation_queue (environment, organization, cause, queued_at)
             SELECT id, organization, '{\"type\":\"BOOTSTRAP\"}', 5 FROM environments",
        )
        .await;
    assert!(live().await["_embedded"]["environments"][0]["last_evaluated_at"].is_f64());
    for path in ["/ui/acme", "/ui/acme/environments/prod", &format!("/ui/acme/artifacts/{}", digest('a'))] {
        assert!(page(path).await.contains("last evaluated"), "{path}");
    }
    // A queued environment is not due.
    service.database.execute("UPDATE environments SET evaluate_at = 1").await;
    let store =
        Store::open(&service.database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let due = store::policies::evaluation_queue::due_organizations(
        &mut store.read().await.unwrap(),
        Timestamp::from_micros(2),
    )
    .await
    .unwrap();
    assert!(due.is_empty(), "{due:?}");
    // An attestation changes no verdict that may be outdated.
    attest(&service, "cart", "unit", 'a', 1).await;
    assert_eq!(compliance(&service).await, ["COMPLIANT"]);
    // This replica evaluates it with its next change of the file.
    service.reload(&declared(2, UNIT, "")).await;
    assert_eq!(compliance(&service).await, ["NON-COMPLIANT"]);
    assert_eq!(events(&service).await.last().unwrap(), "ON_NON_COMPLIANT_ENV");
    assert_eq!(live().await["_embedded"]["environments"][0].get("last_evaluated_at"), None);
}

async fn expired_allow_list_entry_makes_the_environment_non_compliant(database: Database) {
    const EXPIRE: [&str; 2] = [
        "UPDATE allowances SET expires_at = expires_at - 3600000000",
        "UPDATE environments SET compliant_until = compliant_until - 3600000000,
             evaluate_at = evaluate_at - 3600000000",
    ];
    let in_an_hour = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let allowed = format!(
        "{UNIT}, allowed: [{{artifact: {}, reason: r, author: kim, expires: {in_an_hour}}}]",
        digest('a')
    );
    let limits = Limits { evaluation_interval: std::time::Duration::from_millis(20), ..Limits::default() };
    let service =
        TestService::start_with(database, Options { limits, ..options(declared(1, &allowed, "")) }).await;
    attest(&service, "web", "unit", 'a', 0).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let before = ["ON_STARTED_ARTIFACT", "ON_ALLOWED_ARTIFACT", "ON_COMPLIANT_ENV"];
    assert_eq!(events(&service).await, before);
    // Moves the expiry back by one hour.
    for statement in EXPIRE {
        service.database.execute(statement).await;
    }
    eventually("the entry expires", async || {
        events(&service).await.last().is_some_and(|event| event == "ON_NON_COMPLIANT_ENV")
    })
    .await;
    assert_eq!(compliance(&service).await, ["NON-COMPLIANT"]);
    assert_eq!(events(&service).await.len(), 4);
}

async fn silent_environment_is_never_compliant(database: Database) {
    let service = TestService::start_with(database, options(declared(1, UNIT, ""))).await;
    attest(&service, "cart", "unit", 'a', 0).await;
    attest(&service, "cart", "unit", 'b', 1).await;
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:2", 'b')];
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    assert_eq!(compliance(&service).await, ["COMPLIANT", "NON-COMPLIANT"]);
    service.database.execute("UPDATE environments SET last_report_at = last_report_at - 200000000").await;
    assert_eq!(compliance(&service).await, ["UNKNOWN", "NON-COMPLIANT"]);
}

async fn artifact_is_evaluated_by_policy_and_allow_list_of_each_environment(database: Database) {
    const COMPLIANCE: &str = "SELECT name || ' ' || compliance FROM environments ORDER BY name";
    // All environments require unit tests, each third also a scan; each fifth allows the artifact.
    let declared = |generation| {
        let environments: Vec<_> = (0..50)
            .map(|n| {
                let scan = if n % 3 == 0 { ", {flow: cart, name: scan}" } else { "" };
                let entry = format!("{{artifact: {}, reason: audit, author: kim}}", digest('a'));
                let allowed = if n % 5 == 0 { entry.as_str() } else { "" };
                let policy = format!("{{attestations: [{{flow: cart, name: unit}}{scan}]}}");
                format!("{{name: e-{n:02}, policy: {policy}, allowed: [{allowed}]}}")
            })
            .collect();
        bootstrap(generation, &format!("    environments: [{}]", environments.join(", ")))
    };
    let service = TestService::start_with(database, options(bootstrap(1, ""))).await;
    for n in 0..50 {
        service.report(ADMIN, &format!("e-{n:02}"), report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    }
    let compliance_if = |passes: &dyn Fn(usize) -> bool| -> Vec<String> {
        let word = |n| if passes(n) { "COMPLIANT" } else { "NON-COMPLIANT" };
        (0..50).map(|n| format!("e-{n:02} {}", word(n))).collect()
    };
    service.reload(&declared(2)).await;
    // A reload evaluates for a limited time; the queue does the rest.
    let expected = compliance_if(&|n| n % 5 == 0);
    eventually("all are evaluated", async || service.database.rows(COMPLIANCE).await == expected).await;
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(service.database.rows(COMPLIANCE).await, compliance_if(&|n| n % 5 == 0 || n % 3 != 0));
    attest(&service, "cart", "scan", 'a', 0).await;
    assert_eq!(service.database.rows(COMPLIANCE).await, compliance_if(&|_| true));
    attest(&service, "cart", "unit", 'a', 1).await;
    assert_eq!(service.database.rows(COMPLIANCE).await, compliance_if(&|n| n % 5 == 0));
    // Each environment has one open verdict, and its own events.
    let open = "SELECT COUNT(*) || '' FROM verdicts WHERE until_at IS NULL";
    assert_eq!(service.database.rows(open).await, ["50"]);
    let recorded =
        "SELECT e.name || ' ' || COUNT(*) FROM events v JOIN environments e ON e.id = v.environment
                WHERE v.kind IN ('ON_COMPLIANT_ENV', 'ON_NON_COMPLIANT_ENV') GROUP BY e.name ORDER BY e.name";
    let count = |n| if n % 5 == 0 { 1 } else { 3 };
    let expected: Vec<_> = (0..50).map(|n| format!("e-{n:02} {}", count(n))).collect();
    assert_eq!(service.database.rows(recorded).await, expected);
}

async fn environment_too_large_for_a_batch_is_evaluated_with_the_others(database: Database) {
    let declared =
        format!("    environments: [{{name: big, {UNIT}}}, {{name: next, {UNIT}}}, {{name: last, {UNIT}}}]");
    let service = TestService::start_with(database, options(bootstrap(1, &declared))).await;
    let mut large = pod("p", "i", 'a');
    let images = (0..10_001).map(|n| (format!("i{n}"), json!(format!("{n:064x}"))));
    large["digests"] = Value::Object(images.chain([("cart:1".to_owned(), json!(digest('a')))]).collect());
    service.report(ADMIN, "big", report(&[large])).await.expect(201);
    for name in ["next", "last"] {
        service.report(ADMIN, name, report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    }
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(compliance(&service).await, ["COMPLIANT"; 3]);
    let compliances = "SELECT name || ' ' || compliance FROM environments ORDER BY name";
    let expected = ["big NON-COMPLIANT", "last COMPLIANT", "next COMPLIANT"];
    assert_eq!(service.database.rows(compliances).await, expected);
}

/// A service whose queue waits for changes of its bootstrap file, and the declared environments of that file, which run
/// these artifacts.
async fn start_many(database: Database, environments: usize, artifacts: &[String]) -> (TestService, String) {
    let names: Vec<_> = (0..environments).map(|n| format!("env-{n}")).collect();
    let declared: Vec<_> = names.iter().map(|name| format!("{{name: {name}, {UNIT}}}")).collect();
    let declared = format!("    environments: [{}]", declared.join(", "));
    let interval = std::time::Duration::from_hours(1);
    let limits = Limits { evaluation_interval: interval, ..Limits::default() };
    let options = Options { limits, ..options(bootstrap(1, &declared)) };
    let service = TestService::start_with(database, options).await;
    let mut running = pod("p", "i", 'a');
    let images = artifacts.iter().enumerate().map(|(n, artifact)| (format!("i{n}"), json!(artifact)));
    running["digests"] = Value::Object(images.collect());
    for name in names {
        service.report(ADMIN, &name, report(std::slice::from_ref(&running))).await.expect(201);
    }
    (service, declared)
}

/// Numbers of environments by compliance, and of queued environments by whether all of their artifacts are evaluated.
async fn counts(database: &Database) -> Vec<String> {
    let count = "SELECT compliance || ' ' || COUNT(*) FROM environments GROUP BY compliance UNION ALL
                 SELECT CASE WHEN artifacts IS NULL THEN 'all ' ELSE 'attested ' END || COUNT(*)
                 FROM evaluation_queue GROUP BY artifacts IS NULL";
    let mut counts = database.rows(count).await;
    counts.sort_unstable();
    counts
}

async fn attestation_of_an_artifact_in_many_environments_queues_those_above_the_limit(database: Database) {
    let (service, declared) = start_many(database, 120, &[digest('a'), digest('b')]).await;
    let drain = async |generation| service.reload(&bootstrap(generation, &declared)).await;
    attest(&service, "cart", "unit", 'b', 0).await;
    assert_eq!(counts(&service.database).await, ["NON-COMPLIANT 120", "attested 70"]);
    drain(2).await;
    assert_eq!(counts(&service.database).await, ["NON-COMPLIANT 120"]);
    attest(&service, "cart", "unit", 'a', 0).await;
    assert_eq!(counts(&service.database).await, ["COMPLIANT 50", "NON-COMPLIANT 70", "attested 70"]);
    let page = Browser::read_page(&service, "/ui/acme").await;
    assert!(page.contains("last evaluated"), "{page}");
    // The verdicts of the queued environments may be outdated: another attestation leaves them to the queue.
    attest(&service, "cart", "unit", 'a', 1).await;
    assert_eq!(counts(&service.database).await, ["NON-COMPLIANT 120", "attested 70"]);
    drain(3).await;
    assert_eq!(counts(&service.database).await, ["NON-COMPLIANT 120"]);
    attest(&service, "cart", "unit", 'a', 0).await;
    drain(4).await;
    assert_eq!(counts(&service.database).await, ["COMPLIANT 120"]);
    let events =
        "SELECT kind || ' ' || COUNT(*) FROM events WHERE kind LIKE '%_ENV' GROUP BY kind ORDER BY kind";
    assert_eq!(service.database.rows(events).await, ["ON_COMPLIANT_ENV 170", "ON_NON_COMPLIANT_ENV 170"]);
}

async fn shutdown_leaves_queued_environments_to_the_next_start(database: Database) {
    let (service, declared) = start_many(database, 120, &[digest('a')]).await;
    let queue = "INSERT INTO evaluation_queue (environment, organization, cause, queued_at)
                 SELECT id, organization, '{\"type\":\"BOOTSTRAP\"}', 5 FROM environments WHERE compliance <> 'UNKNOWN'";
    service.database.execute(queue).await;
    let (database, options) = (service.stop().await, options(bootstrap(1, &declared)));
    // A start evaluates up to 100, within ten seconds.
    TestService::start_and_shut_down(&database, &options).await;
    assert_eq!(counts(&database).await.len(), 2);
    let service = TestService::start_with(database, options).await;
    crate::service::eventually("the queue is empty", async || {
        counts(&service.database).await == ["NON-COMPLIANT 120"]
    })
    .await;
}

async fn attestation_of_many_running_artifacts_queues_their_environments(database: Database) {
    const ARTIFACTS: usize = 1_000;
    let artifacts: Vec<_> = (0..ARTIFACTS).map(|n| format!("{n:064x}")).collect();
    let (service, declared) = start_many(database, 10, &artifacts).await;
    let data = json!({
        "attestation_name": "unit", "target_artifacts": artifacts,
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    assert_eq!(counts(&service.database).await, ["NON-COMPLIANT 10", "attested 10"]);
    // A reload evaluates for a limited time: one is not enough on a busy machine.
    for generation in 2..20 {
        service.reload(&bootstrap(generation, &declared)).await;
        if counts(&service.database).await == ["COMPLIANT 10"] {
            return;
        }
    }
    panic!("{:?}", counts(&service.database).await);
}

async fn token_of_one_flow_cannot_change_verdicts_on_another(database: Database) {
    let service = TestService::start_with(database, options(declared(1, UNIT, ""))).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "all", "total": 1, "failures": 0, "errors": 0}],
    });
    service.attest(ATTESTER, "web", "t", form(&data)).await.expect(403);
    assert_eq!(events(&service).await, ["ON_STARTED_ARTIFACT", "ON_NON_COMPLIANT_ENV"]);
    service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
    assert_eq!(events(&service).await.len(), 3);
}

crate::service::on_both!(
    attestation_counts_only_within_the_limits_of_each_environment,
    status_of_an_environment_follows_from_its_attested_and_other_artifacts,
    environment_that_waits_for_its_evaluation_shows_when_it_was_last_evaluated,
    report_evaluates_changed_artifacts_and_all_if_verdicts_may_be_outdated,
    each_compliance_change_is_recorded_once,
    approval_applies_to_its_environment_or_to_any,
    exception_that_ended_for_one_replica_stays_ended_for_another,
    latest_state_of_an_approval_is_that_of_the_latest_file,
    expired_allow_list_entry_makes_the_environment_non_compliant,
    silent_environment_is_never_compliant,
    environment_too_large_for_a_batch_is_evaluated_with_the_others,
    attestation_of_an_artifact_in_many_environments_queues_those_above_the_limit,
    shutdown_leaves_queued_environments_to_the_next_start,
    attestation_of_many_running_artifacts_queues_their_environments,
    artifact_is_evaluated_by_policy_and_allow_list_of_each_environment,
    token_of_one_flow_cannot_change_verdicts_on_another,
);
