//! Rolling upgrade: this version starts on a database that the previous version filled, and a replica of the previous
//! version writes while this version runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use supercargo::service::{Clock, Limits};
use uuid::Uuid;

use super::browser::Browser;
use super::test_service::{Options, bootstrap, eventually};
use super::{ATTESTER, Database, REPORTER, TestService, digest, form, pod, report};

/// The migrations, oldest first.
fn migrations() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let files = |folder: PathBuf| folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let own = ["sqlite", "postgres"].into_iter().flat_map(|database| files(folder.join(database)));
    let mut files: Vec<_> = files(folder.clone()).filter(|file| file.is_file()).chain(own).collect();
    files.sort();
    files
}

#[test]
fn migrations_only_add_optional_columns() {
    let files = migrations();
    assert!(files.len() > 1);
    for file in files.iter().skip(1) {
        // This migration removes a NOT NULL, which previous versions do not notice.
        if file.ends_with("0032_claims.sql") {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap().to_uppercase();
        for statement in text.split(';').filter(|statement| statement.contains("ALTER TABLE")) {
            let is_optional = !statement.contains("NOT NULL") || statement.contains("DEFAULT");
            assert!(statement.contains("ADD COLUMN") && is_optional, "{}: {statement}", file.display());
        }
        for word in ["DROP ", "RENAME "] {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}

const POLICY: &str = "    environments: [{name: prod, policy: {approval: true}}]";

async fn environment_that_the_previous_version_evaluated_last_is_evaluated_again(database: Database) {
    let limits = Limits { evaluation_interval: Duration::from_millis(20), ..Limits::default() };
    let options = Options { limits, bootstrap: bootstrap(1, POLICY), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    service.report(REPORTER, "prod", report(&[pod("p", "one", 'a')])).await.expect(201);
    // The previous version records its evaluation without counts.
    let evaluation = "UPDATE environments SET evaluated_at = evaluated_at + 1, compliance = 'COMPLIANT'";
    service.database.execute(evaluation).await;
    let counted = "SELECT compliance FROM environments WHERE counted_at = evaluated_at";
    eventually("the environment is evaluated", async || {
        service.database.rows(counted).await == ["NON-COMPLIANT"]
    })
    .await;
}

/// Number of migrations of the version that filled `tests/fixtures/upgrade`.
const RECORDED_MIGRATIONS: usize = 6;

/// A file of `tests/fixtures/upgrade`.
fn recorded(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upgrade");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// A service on a copy of the recorded database, with the recorded bootstrap file.
async fn start_on_recording(database: Database, clock: Clock) -> TestService {
    let database = database.without_schema();
    for migration in migrations().iter().take(RECORDED_MIGRATIONS) {
        database.execute(&std::fs::read_to_string(migration).unwrap()).await;
    }
    let dump = if database.is_postgres() { "postgres.sql" } else { "sqlite.sql" };
    database.execute(&recorded(dump)).await;
    let options = Options {
        bootstrap: recorded("bootstrap.yaml"),
        public_url: Some("https://supercargo.example.com"),
        clock,
        files: vec![
            ("ops.url", "http://127.0.0.1:41707/hook?key=credential".to_owned()),
            ("ops.secret", "whsec-0123456789abcdef0123456789".to_owned()),
        ],
        ..Options::default()
    };
    TestService::start_with(database, options).await
}

/// Removes fields that the recorded answer does not have: a later version may add fields.
fn retain_recorded(answer: &mut Value, recorded: &Value) {
    match (answer, recorded) {
        (Value::Object(answer), Value::Object(recorded)) => {
            answer.retain(|field, _| recorded.contains_key(field));
            for (field, value) in answer {
                retain_recorded(value, &recorded[field]);
            }
        }
        (Value::Array(answer), Value::Array(recorded)) => {
            for (value, recorded) in answer.iter_mut().zip(recorded) {
                retain_recorded(value, recorded);
            }
        }
        _ => {}
    }
}

/// The verdicts on the artifacts of the repository `acme/cart` in an environment, each as digit and compliance.
async fn verdicts(service: &TestService, environment: &str) -> Vec<String> {
    let live = service.read("/repos/acme/live-artifacts/acme/cart").await;
    let environments = live["_embedded"]["environments"].as_array().unwrap();
    let environment = environments.iter().find(|one| one["name"] == environment).unwrap();
    let artifacts = live["live_artifacts"].as_array().unwrap().iter();
    let artifacts = artifacts.filter(|artifact| artifact["environment_id"] == environment["id"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let verdict = |artifact: &Value| {
        format!("{} {}", &text(&artifact["artifact_id"])[..1], text(&artifact["compliance"]))
    };
    let mut verdicts: Vec<_> = artifacts.map(verdict).collect();
    verdicts.sort();
    verdicts
}

/// Attests `unit` in the flow `cart` for the artifact of this digit, from the repository `acme/cart`.
async fn attest_unit(service: &TestService, trail: &str, digit: char, failures: u32) {
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest(digit), "repo_info": {"name": "acme/cart"},
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ATTESTER, "cart", trail, form(&data)).await.expect(201);
}

async fn database_of_the_previous_version_gives_the_same_answers_and_later_verdicts(database: Database) {
    let file = if database.is_postgres() { "postgres.json" } else { "sqlite.json" };
    let recording: Value = serde_json::from_str(&recorded(file)).unwrap();
    // The clock of the recording, at which its session is valid and its environments are not silent.
    let (clock, control) = Clock::adjustable();
    let since = Duration::from_micros(recording["recorded_at"].as_u64().unwrap());
    control.set_back(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since).unwrap_or_default());
    let service = start_on_recording(database, clock).await;
    for answer in recording["answers"].as_array().unwrap() {
        let (token, path) = (answer["token"].as_str().unwrap(), answer["path"].as_str().unwrap());
        let mut body = service.get(token, path).await.expect(200).json();
        retain_recorded(&mut body, &answer["body"]);
        assert_eq!(body, answer["body"], "{path}");
    }
    let mut browser = Browser::new(&service);
    browser.cookie = recording["cookie"].as_str().map(str::to_owned);
    assert_eq!(browser.get("/ui/acme").await.status, 200);

    // Artifacts that start now are evaluated by recorded attestations: 1 passed, failed and passed again in three
    // trails; 2 passed twice and then failed in the trail in the middle.
    let pods = [pod("p", "cart:1", 'a'), pod("q", "cart:3", '1'), pod("r", "cart:4", '2')];
    service.report(REPORTER, "stage", report(&pods)).await.expect(201);
    assert_eq!(verdicts(&service, "stage").await, ["1 COMPLIANT", "2 NON-COMPLIANT", "a COMPLIANT"]);
    assert_eq!(verdicts(&service, "prod").await, ["a COMPLIANT", "d COMPLIANT"]);
    // An attestation in a recorded trail supersedes the recorded attestations of all trails.
    attest_unit(&service, "build-6", '2', 0).await;
    attest_unit(&service, "build-2", 'a', 1).await;
    assert_eq!(verdicts(&service, "stage").await, ["1 COMPLIANT", "2 COMPLIANT", "a NON-COMPLIANT"]);
    assert_eq!(verdicts(&service, "prod").await, ["a NON-COMPLIANT", "d COMPLIANT"]);
}

const UNIT: &str = "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}]}}]";

/// The statements of version 0.1 that record `unit` of the flow `cart` for artifacts, in one transaction.
fn attestation_of_the_previous_version(
    database: &Database,
    trail: &str,
    digits: &[char],
    passes: bool,
) -> String {
    let new_id = || database.uuid(Uuid::now_v7());
    let (id, failures) = (new_id(), u8::from(!passes));
    let trail_id = format!("(SELECT id FROM trails WHERE flow = 'cart' AND name = '{trail}')");
    let latest = format!(
        "(SELECT id FROM attestations
          WHERE trail = {trail_id} AND superseded_by IS NULL AND name = 'unit' AND targets = '[]' AND id <> {id})"
    );
    let now = "(SELECT COALESCE(MAX(created_at), 0) + 1 FROM attestations)";
    let artifacts: Vec<_> = digits
        .iter()
        .map(|digit| format!("('acme', {}, {id}, {trail_id})", database.bytes(&digest(*digit))))
        .collect();
    format!(
        "BEGIN;
         INSERT INTO flows (organization, name, created_at) VALUES ('acme', 'cart', {now}) ON CONFLICT DO NOTHING;
         INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by)
         VALUES ({trail}, 'acme', 'cart', '{name}', {now}, {now}, 'attester')
         ON CONFLICT (organization, flow, name) DO UPDATE SET last_modified_at = trails.last_modified_at;
         INSERT INTO attestations
             (id, organization, flow, trail, name, kind, targets, created_at, reported_by, schema_version,
              is_compliant, results, description, origin_url, user_data, annotations, external_urls,
              git_commit_info, repository, attachment, attachment_name, overrides)
         VALUES ({id}, 'acme', 'cart', {trail_id}, 'unit', 'junit', '[]', {now}, 'attester', 1, {passes},
                 '[{{\"failures\":{failures},\"errors\":0,\"skipped\":0,\"total\":3}}]', '', '', '{{}}', '{{}}', '{{}}',
                 NULL, NULL, NULL, NULL, {latest});
         UPDATE attestations SET superseded_by = {id} WHERE id = {latest};
         UPDATE trails SET last_modified_at = {now} WHERE id = {trail_id};
         INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail) VALUES {artifacts};
         COMMIT;",
        trail = new_id(),
        name = trail,
        artifacts = artifacts.join(", "),
    )
}

async fn attestation_of_the_previous_version_is_the_latest_in_the_next_report(database: Database) {
    let service =
        TestService::start_with(database, Options { bootstrap: bootstrap(1, UNIT), ..Options::default() })
            .await;
    for (digit, failures) in [('a', 0), ('b', 1), ('c', 0), ('d', 1)] {
        attest_unit(&service, "t-1", digit, failures).await;
    }
    // In a trail of this version, in which it supersedes the attestation of d, and in a new trail.
    for (trail, digits, passes) in [("t-1", &['a'][..], false), ("t-2", &['b', 'd'], true)] {
        let statements = attestation_of_the_previous_version(&service.database, trail, digits, passes);
        service.database.execute(&statements).await;
    }
    attest_unit(&service, "t-1", 'd', 1).await;
    let pods = ['a', 'b', 'c', 'd'].map(|digit| pod(&format!("p-{digit}"), "cart:1", digit));
    service.report(REPORTER, "prod", report(&pods)).await.expect(201);
    let expected = ["a NON-COMPLIANT", "b COMPLIANT", "c COMPLIANT", "d NON-COMPLIANT"];
    assert_eq!(verdicts(&service, "prod").await, expected);
}

super::on_both!(
    environment_that_the_previous_version_evaluated_last_is_evaluated_again,
    database_of_the_previous_version_gives_the_same_answers_and_later_verdicts,
    attestation_of_the_previous_version_is_the_latest_in_the_next_report,
);
