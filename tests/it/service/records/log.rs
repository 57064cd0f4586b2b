//! The log: what `supercargo log verify` finds after changes of the database, and the checkpoints.

use std::path::PathBuf;
use std::time::Duration;

use model::Fingerprint;
use reqwest::Method;
use reqwest::multipart::Part;
use serde_json::{Value, json};
use service::{Clock, Delivery, Limits};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::fake::{Reply, Server};
use crate::program::{Outcome, supercargo};
use crate::service::report;
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{
    ADMIN, ATTESTER, Database, READER, REPORTER, Response, STRANGER, TestService, digest, form, pod,
};

const COMMIT: &str = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";

/// Made with OpenSSL.
pub(crate) const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINz8b6hf6IYXQk11SSsYLx+Ugr+SmmpbchAaWWBiYW8F\n-----END PRIVATE KEY-----\n";
pub(crate) const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAhbdtikCBkBmkaAkB/WslPXu0h5uYIBequ7LkINxWSnE=\n-----END PUBLIC KEY-----\n";
pub(crate) const OTHER_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEw9esnFpYOwOT8p4k1nqpv3898pnb\nBBfa9v+MQdhxaU6d9XumdAXTO7pYgbZbSKlkNan8tS/MxwHFm8pLStlLUg==\n-----END PUBLIC KEY-----\n";

/// Policies, allow-list entries, an approval, a template and an ownership.
fn declared() -> String {
    let (allowed, target, base) = (digest('f'), digest('a'), digest('b'));
    bootstrap(
        1,
        &format!(
            "    flows:
      - name: cart
        template: {{attestations: [{{name: unit, type: junit}}]}}
        approvals: [{{number: 1, artifact: {target}, base: {base}, name: \"cart:1\", state: APPROVED,
                      approvals: [{{by: kim, at: 2026-09-01T12:00:00Z, comment: fine}}]}}]
      - {{name: web, repositories: [acme/web]}}
    policies: [{{name: rules, text: \"_schema: x/v1\"}}]
    environments:
      - name: prod
        policy: {{attestations: [{{flow: cart, name: unit}}]}}
        policies: [rules]
        allowed:
          - {{artifact: {allowed}, reason: of the nodes, author: ops}}
          - {{image: registry.k8s.io/pause, reason: of the nodes, author: ops}}"
        ),
    )
}

fn options() -> Options {
    Options { bootstrap: declared(), ..Options::default() }
}

async fn attest(service: &TestService, digit: char, name: &str) {
    attest_commit(service, digit, name, Some(&json!({"sha1": COMMIT}))).await;
}

async fn attest_commit(service: &TestService, digit: char, name: &str, commit: Option<&Value>) {
    let data = json!({
        "attestation_name": name, "artifact_fingerprint": digest(digit),
        "junit_results": [{"name": "suite", "total": 3, "failures": 0, "errors": 0, "skipped": 0, "duration": 1.0,
                           "timestamp": 1_790_000_000.0}],
        "git_commit_info": commit, "repo_info": {"name": "acme/cart", "url": "https://example.com/acme/cart"},
        "user_data": {"run": 7},
    });
    let form = form(&data)
        .part("attachment_file", Part::text(format!("<testsuites {name}/>")).file_name("junit.xml"));
    service.attest(ATTESTER, "cart", "t", form).await.expect(201);
}

/// A trail, attestations, the report of an artifact, and three reports of an environment, of which the last ends an artifact.
/// The report of the artifact adds a commit to the origin that an attestation named.
async fn record_changes(service: &TestService) {
    let described = form(&json!({"name": "begun", "description": "a release"}));
    let begin = service.request(Method::PUT, ATTESTER, "/trails/acme/cart").multipart(described);
    Response::from_request(begin).await.expect(201);
    attest(service, 'a', "unit").await;
    attest_commit(service, 'd', "unit", None).await;
    let body = json!({"fingerprint": digest('d'), "filename": "cart:2", "git_commit": COMMIT,
                      "git_commit_info": {"sha1": COMMIT, "message": "m", "author": "a", "branch": "b", "timestamp": 1},
                      "repo_info": {"name": "acme/cart", "url": "https://example.com/acme/cart"}});
    let request = service.request(Method::POST, ATTESTER, "/artifacts/acme/cart");
    let request = request.header("Content-Type", "application/json").body(body.to_string());
    Response::from_request(request).await.expect(201);
    attest(service, 'a', "unit").await;
    for (digits, status) in [("ab", 201), ("a", 201), ("af", 201)] {
        let pods: Vec<_> = digits.chars().map(|digit| pod(&format!("p{digit}"), "cart:1", digit)).collect();
        service.report(REPORTER, "prod", report(&pods)).await.expect(status);
    }
    let pods = [pod("pa", "cart:1", 'a'), pod("pf", "cart:1", 'f'), pod("more", "cart:1", 'f')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(200);
}

/// Runs `supercargo log` with these arguments as the administrator.
pub(crate) async fn log(service: &TestService, arguments: &[&str]) -> Outcome {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let base = service.base.clone();
    let run = move || {
        supercargo()
            .args(["log"])
            .args(arguments.iter().map(String::as_str))
            .env("SUPERCARGO_BASE_URL", &base)
            .env("SUPERCARGO_ORG", "acme")
            .env("SUPERCARGO_TOKEN", ADMIN)
            .run()
    };
    spawn_blocking(run).await.unwrap()
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

async fn entries(service: &TestService) -> Vec<Value> {
    let page = service.get(ADMIN, "/log/acme").await.expect(200).json();
    page["entries"].as_array().unwrap().clone()
}

async fn unchanged_log_is_verified_page_by_page(database: Database) {
    let service = TestService::start_with(database, options()).await;
    record_changes(&service).await;
    let count = entries(&service).await.len();
    let verified = log(&service, &["verify"]).await;
    verified.expect(0, &[&format!("verified {count} entries of "), "the checkpoint is not signed"]);
    let host = service.host();
    assert!(verified.stdout.starts_with(&format!("{host}/acme\n{count}\n")), "{verified:?}");
    // A page may have fewer entries than there are.
    let mut walked = Vec::new();
    loop {
        let path = format!("/log/acme?after={}&per_page=2", walked.len());
        let page = service.get(ADMIN, &path).await.expect(200).json();
        let entries = page["entries"].as_array().unwrap();
        assert_eq!(page["rows"].is_null(), entries.len() == 2, "{page}");
        walked.extend(entries.iter().cloned());
        if entries.len() < 2 {
            break;
        }
    }
    assert_eq!(walked, entries(&service).await);
    let kinds: std::collections::BTreeSet<_> =
        walked.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    let expected = [
        "allowance",
        "approval",
        "artifact",
        "attestation",
        "audit",
        "environment",
        "ownership",
        "policy-attachment",
        "policy-version",
        "repository",
        "start",
        "template",
        "token",
        "trail",
    ];
    assert!(kinds.iter().eq(&expected), "{kinds:?}");
    // A restart with the same bootstrap file adds nothing.
    let service = TestService::start_with(service.stop().await, options()).await;
    log(&service, &["verify"]).await.expect(0, &[&format!("verified {count} entries")]);
    // Another organization has its own log.
    let other = service.get(STRANGER, "/log/stranger").await.expect(200).json();
    assert_eq!(other["entries"][0]["id"], "stranger");
}

/// Two replicas have different clocks, or the clock is set back.
async fn artifact_recorded_again_with_an_earlier_clock_is_verified(database: Database) {
    let clock = Clock::default();
    let options = Options { bootstrap: declared(), clock: clock.clone(), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let mut behind = Duration::ZERO;
    for (digit, requests) in [('1', "ra"), ('2', "ar"), ('3', "rr"), ('4', "aa")] {
        for (place, request) in requests.char_indices() {
            behind += Duration::from_mins(1);
            clock.set_back(behind);
            if request == 'a' {
                let data = json!({
                    "attestation_name": "unit", "artifact_fingerprint": digest(digit),
                    "junit_results": [{"name": "suite", "total": 3, "failures": 0, "errors": 0}],
                });
                let trail = format!("t{digit}{place}");
                service.attest(ATTESTER, "cart", &trail, form(&data)).await.expect(201);
            } else {
                let body = json!({"fingerprint": digest(digit), "filename": format!("cart:{place}")});
                let request = service.request(Method::POST, ATTESTER, "/artifacts/acme/cart");
                let request = request.header("Content-Type", "application/json").body(body.to_string());
                Response::from_request(request).await.expect(201);
            }
        }
        let verified = log(&service, &["verify"]).await;
        assert_eq!(verified.code, 0, "{requests}: {verified:?}");
    }
    let backwards = "SELECT CAST(COUNT(*) AS TEXT) FROM flow_artifacts WHERE modified_at <= created_at";
    assert_eq!(service.database.rows(backwards).await, ["0"]);
}

async fn closed_declarations_are_verified(database: Database) {
    let service = TestService::start_with(database, options()).await;
    record_changes(&service).await;
    let approve = json!({"artifact_fingerprint": digest('a'), "approvals": [{"state": "APPROVED"}]});
    for (method, path, body) in [
        (Method::POST, "/approvals/acme/cart", approve),
        (Method::PUT, "/approvals/acme/cart/2/withdraw", json!({"comment": "a mistake"})),
    ] {
        let request = service.request(method, ADMIN, path).header("Content-Type", "application/json");
        let response = Response::from_request(request.body(body.to_string())).await;
        assert!(response.status.is_success(), "{response:?}");
    }
    let withdrawal = "UPDATE approvals SET withdrawal_comment = 'a mistak";
    log(&service, &["verify"]).await.expect(0, &[]);
    service.database.execute(&format!("{withdrawal}' WHERE number = 2")).await;
    log(&service, &["verify"]).await.expect(11, &["(approval-end ", "does not match its record"]);
    service.database.execute(&format!("{withdrawal}e' WHERE number = 2")).await;
    service.reload(&bootstrap(2, "")).await;
    log(&service, &["verify"]).await.expect(0, &[]);
    let kinds: Vec<_> = entries(&service).await.iter().map(|entry| entry["kind"].clone()).collect();
    for kind in [
        "policy-version-end",
        "policy-attachment-end",
        "allowance-end",
        "approval-end",
        "template-end",
        "ownership-end",
    ] {
        assert!(kinds.contains(&json!(kind)), "{kind}: {kinds:?}");
    }
    service.database.execute("UPDATE policy_versions SET closed_at = closed_at + 1").await;
    log(&service, &["verify"]).await.expect(11, &["(policy-version-end ", "does not match its record"]);
}

async fn changed_byte_is_found_and_its_record_named(database: Database) {
    let service = TestService::start_with(database, options()).await;
    record_changes(&service).await;
    log(&service, &["verify"]).await.expect(0, &[]);
    let database = &service.database;
    let (a, other) = (database.bytes(&digest('a')), database.bytes(&digest('9')));
    let text = |column: &str| {
        let undo = format!("{column} = substr({column}, 1, length({column}) - 1)");
        (format!("{column} = {column} || ' '"), undo)
    };
    let flag = |column: &str| {
        let change = format!("{column} = NOT {column}");
        (change.clone(), change)
    };
    let number = |column: &str| (format!("{column} = {column} + 1"), format!("{column} = {column} - 1"));
    let artifact = || (format!("fingerprint = {other}"), format!("fingerprint = {a}"));
    let content = |content: &str| format!("content = {}", database.bytes(&hex::encode(content)));
    let only_a = format!("fingerprint IN ({a}, {other})");
    let file = "<testsuites unit/>";
    let of_reader = database.bytes(&Fingerprint::from_content(READER.as_bytes()).to_string());
    let reader = format!("sha256 IN ({other}, {of_reader})");
    let cases = [
        ("attestations", text("results"), "TRUE", "attestation"),
        ("attestations", text("reported_by"), "TRUE", "attestation"),
        ("attestations", flag("is_compliant"), "TRUE", "attestation"),
        ("attested_artifacts", artifact(), only_a.as_str(), "attestation"),
        ("attachments", (content("<testsuites unix/>"), content(file)), "TRUE", "attestation"),
        ("latest_attestations", flag("is_compliant"), "TRUE", "attestation"),
        ("latest_attestations", text("kind"), "TRUE", "attestation"),
        ("latest_attestations", text("name"), "TRUE", "attestation"),
        ("provenance", ("flow = 'other'".into(), "flow = 'cart'".into()), "TRUE", "attestation"),
        ("provenance", artifact(), only_a.as_str(), "attestation"),
        ("claims", text("commit_sha"), "TRUE", "attestation"),
        ("provenance", text("commit_sha"), "TRUE", "attestation"),
        ("trails", text("created_by"), "TRUE", "attestation"),
        ("repositories", text("name"), "TRUE", "attestation"),
        ("environments", text("name"), "TRUE", "environment"),
        ("snapshots", text("reported_by"), "TRUE", "environment"),
        ("snapshots", number("confirmed_at"), "confirmed_at IS NOT NULL", "environment"),
        ("artifact_runs", text("name"), "ended_at IS NOT NULL", "environment"),
        ("artifact_runs", number("started_at"), "TRUE", "environment"),
        ("artifact_runs", number("last_snapshot"), "last_snapshot IS NOT NULL", "environment"),
        ("pod_runs", text("pod"), "TRUE", "environment"),
        ("pod_runs", number("ended_at"), "ended_at IS NOT NULL", "environment"),
        ("workloads", text("digests"), "TRUE", "environment"),
        ("verdicts", text("reasons"), "TRUE", "environment"),
        ("allowances", text("reason"), "TRUE", "allowance"),
        ("allowances", flag("is_declared"), "pattern IS NOT NULL", "allowance"),
        ("approvals", text("content"), "TRUE", "approval"),
        ("flow_templates", text("content"), "TRUE", "template"),
        ("policy_versions", text("content"), "TRUE", "policy-version"),
        ("policy_attachments", text("environment"), "TRUE", "policy-attachment"),
        ("allowances", text("pattern"), "pattern IS NOT NULL", "allowance"),
        ("flow_ownerships", text("content"), "TRUE", "ownership"),
        ("tokens", text("scope"), "name = 'reporter'", "token"),
        ("tokens", (format!("sha256 = {other}"), format!("sha256 = {of_reader}")), reader.as_str(), "token"),
        ("repositories", text("url"), "TRUE", "repository"),
        ("repositories", flag("is_url_of_owner"), "TRUE", "repository"),
        ("repositories", ("description = 'x'".into(), "description = NULL".into()), "TRUE", "repository"),
        ("trails", text("git_commit_info"), "git_commit_info IS NOT NULL", "trail"),
        ("trails", text("description"), "description IS NOT NULL", "trail"),
        ("trails", ("description = 'x'".into(), "description = NULL".into()), "name = 't'", "trail"),
        ("audit", text("change"), "organization = 'acme'", "audit"),
        ("log_entries", number("at"), "sequence = 4 AND organization = 'acme'", ""),
    ];
    for (table, (change, undo), condition, kind) in cases {
        service.database.execute(&format!("UPDATE {table} SET {change} WHERE {condition}")).await;
        let found = log(&service, &["verify"]).await;
        assert_eq!(found.code, 11, "{table}: {change}: {found:?}");
        if kind.is_empty() {
            found.expect(11, &["entry 4 (", "was changed: its hash does not follow"]);
        } else {
            found.expect(11, &["error: entry ", &format!(" ({kind} "), "does not match its record"]);
        }
        service.database.execute(&format!("UPDATE {table} SET {undo} WHERE {condition}")).await;
    }
    // The commit that the report of an artifact added, changed where it is recorded and where it counts.
    let only_d = format!("fingerprint = {}", database.bytes(&digest('d')));
    let set_commit = |commit: &str| {
        ["claims", "provenance"]
            .map(|table| format!("UPDATE {table} SET commit_sha = '{commit}' WHERE {only_d};"))
            .concat()
    };
    service.database.execute(&set_commit(&"9".repeat(40))).await;
    log(&service, &["verify"])
        .await
        .expect(11, &["error: entry ", " (artifact ", "does not match its record"]);
    service.database.execute(&set_commit(COMMIT)).await;
    log(&service, &["verify"]).await.expect(0, &[]);
}

/// The verification finds one row of this kind that the log does not have.
#[track_caller]
fn assert_one_row_more(found: &Outcome, kind: &str) {
    found.expect(11, &["rows were added or removed"]);
    let counts = regex::Regex::new(&format!(r"(\d+) rows of kind {kind} are stored, and the log has (\d+):"));
    let counts = counts.unwrap().captures(&found.stderr).unwrap_or_else(|| panic!("{kind}: {found:?}"));
    let [stored, logged] = [1, 2].map(|group| counts[group].parse::<u32>().unwrap());
    assert_eq!(stored, logged + 1, "{kind}");
}

/// Records that the retention did not remove are found, although the database says that it did.
async fn assert_false_horizon_is_found(service: &TestService, update: &str, horizon: i64, kind: &str) {
    service.database.execute(&format!("{update} = {horizon}")).await;
    let found = log(service, &["verify"]).await;
    found.expect(11, &[&format!(" ({kind} "), "no entry of the log says that the retention removed it"]);
    service.database.execute(&format!("{update} = NULL")).await;
}

async fn removed_and_added_rows_are_found(database: Database) {
    let service = TestService::start_with(database, options()).await;
    record_changes(&service).await;
    let past = service.database.rows("SELECT CAST(MAX(at) AS TEXT) FROM log_entries").await;
    let later: i64 = past[0].parse::<i64>().unwrap() + 3_600_000_000;
    let id = service.database.uuid(uuid::Uuid::now_v7());
    let (sha256, trail) = (service.database.bytes(&digest('9')), "last_modified_at, created_by");
    for (table, columns, values, kind) in [
        ("audit", "at, actor, change", "'x', 'y'", "audit"),
        (
            "tokens",
            "created_at, name, sha256, role, scope, can_create",
            &format!("'x', {sha256}, 'admin', '[]', FALSE"),
            "token",
        ),
        ("trails", &format!("created_at, flow, name, {trail}"), "'cart', 'x', 1, 'x'", "trail"),
        ("flow_ownerships", "created_at, flow, content", "'cart', '{}'", "ownership"),
    ] {
        let insert = format!(
            "INSERT INTO {table} (id, organization, {columns}) VALUES ({id}, 'acme', {later}, {values})"
        );
        service.database.execute(&insert).await;
        let found = log(&service, &["verify"]).await;
        assert_one_row_more(&found, kind);
        service.database.execute(&format!("DELETE FROM {table} WHERE id = {id}")).await;
    }
    log(&service, &["verify"]).await.expect(0, &[]);
    // Rows that end or follow from others, without an entry.
    let (a, other) = (service.database.bytes(&digest('a')), service.database.bytes(&digest('9')));
    let open =
        format!("IS NULL AND environment IN (SELECT environment FROM artifact_runs WHERE fingerprint = {a})");
    for (kind, change, undo) in [
        (
            "pod-end",
            format!("UPDATE pod_runs SET ended_at = {later} WHERE pod = 'more' AND ended_at {open}"),
            format!("UPDATE pod_runs SET ended_at = NULL WHERE ended_at = {later}"),
        ),
        (
            "running-artifact-end",
            format!(
                "UPDATE artifact_runs SET ended_at = {later} WHERE fingerprint = {a} AND ended_at {open}"
            ),
            format!("UPDATE artifact_runs SET ended_at = NULL WHERE ended_at = {later}"),
        ),
        (
            "unexplained-compliance",
            format!("UPDATE verdicts SET until_at = {later} WHERE fingerprint = {a} AND until_at {open}"),
            format!("UPDATE verdicts SET until_at = NULL WHERE until_at = {later}"),
        ),
        (
            "unexplained-compliance",
            "UPDATE environments SET compliant_artifacts = compliant_artifacts + 1 WHERE name = 'prod'"
                .to_owned(),
            "UPDATE environments SET compliant_artifacts = compliant_artifacts - 1 WHERE name = 'prod'"
                .to_owned(),
        ),
        (
            "unexplained-flow-artifact",
            format!("UPDATE flow_artifacts SET trail = NULL WHERE fingerprint = {a}"),
            format!(
                "UPDATE flow_artifacts SET trail = (SELECT id FROM trails WHERE flow = 'cart' AND name = 't')
                 WHERE fingerprint = {a}"
            ),
        ),
        (
            "gap",
            format!(
                "INSERT INTO gaps (organization, environment, from_at, to_at)
                 SELECT organization, id, 1, {later} FROM environments"
            ),
            "DELETE FROM gaps".to_owned(),
        ),
        (
            "unexplained-latest-attestation",
            format!(
                "INSERT INTO latest_attestations
                   (organization, fingerprint, flow, name, attestation, created_at, is_compliant, kind, trail)
                 SELECT organization, {other}, flow, name, attestation, created_at, is_compliant, kind, trail
                 FROM latest_attestations LIMIT 1"
            ),
            format!("DELETE FROM latest_attestations WHERE fingerprint = {other}"),
        ),
    ] {
        service.database.execute(&change).await;
        let found = log(&service, &["verify"]).await;
        assert_one_row_more(&found, kind);
        service.database.execute(&undo).await;
        log(&service, &["verify"]).await.expect(0, &[]);
    }
    for (table, horizon, kind) in
        [("environments", "horizon_at", "environment"), ("organizations", "audit_removed_before", "audit")]
    {
        assert_false_horizon_is_found(&service, &format!("UPDATE {table} SET {horizon}"), later, kind).await;
    }
    assert_removed_attachment_is_found(&service).await;
    service.database.execute("DELETE FROM audit WHERE organization = 'acme'").await;
    log(&service, &["verify"]).await.expect(11, &["(audit ", "has no record: it was removed"]);
}

async fn assert_removed_attachment_is_found(service: &TestService) {
    let attachments = "UPDATE attachments SET sha256 = ";
    let stored = service.database.bytes(&Fingerprint::from_content(b"<testsuites unit/>").to_string());
    service.database.execute(&format!("{attachments} {}", service.database.bytes(&digest('9')))).await;
    log(service, &["verify"]).await.expect(11, &["(attestation ", "has no attached file: it was removed"]);
    service.database.execute(&format!("{attachments} {stored}")).await;
    log(service, &["verify"]).await.expect(0, &[]);
}

async fn changed_chain_is_found(database: Database) {
    let service = TestService::start_with(database, options()).await;
    record_changes(&service).await;
    let folder = tempfile::tempdir().unwrap();
    let verified = log(&service, &["verify"]).await;
    let since = file(&folder, "checkpoint", &verified.expect(0, &[]).stdout);
    let since = since.to_str().unwrap();
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'c')])).await.expect(201);
    log(&service, &["verify", "--since", since]).await.expect(0, &[]);
    let acme = "organization = 'acme' AND sequence";
    let move_entry =
        |from: i64, to: i64| format!("UPDATE log_entries SET sequence = {to} WHERE {acme} = {from};");
    let swap =
        |one: i64, other: i64| [move_entry(one, 0), move_entry(other, one), move_entry(0, other)].concat();
    service.database.execute(&swap(5, 6)).await;
    log(&service, &["verify"]).await.expect(11, &["entry 5 (", "was changed: its hash does not follow"]);
    service.database.execute(&swap(5, 6)).await;
    service.database.execute(&move_entry(5, 1_000_000)).await;
    log(&service, &["verify"]).await.expect(11, &["entry 5 is missing: entry 6 follows entry 4"]);
    service.database.execute(&move_entry(1_000_000, 5)).await;
    log(&service, &["verify", "--since", since]).await.expect(0, &[]);
    // Removes the end of the log, and makes an earlier entry the last.
    let truncate = format!(
        "DELETE FROM log_entries WHERE {acme} > 5;
         UPDATE log_heads SET size = 5, hash = (SELECT hash FROM log_entries WHERE {acme} = 5) WHERE organization = 'acme'"
    );
    service.database.execute(&truncate).await;
    log(&service, &["verify"])
        .await
        .expect(11, &["are stored, and the log has ", "rows were added or removed"]);
    let truncated = log(&service, &["verify", "--since", since]).await;
    truncated
        .expect(11, &["the log has 5 entries, and the checkpoint ", "entries were removed from its end"]);
    for table in ["log_entries", "log_heads"] {
        service.database.execute(&format!("DELETE FROM {table} WHERE organization = 'acme'")).await;
    }
    log(&service, &["verify"]).await.expect(11, &["entry 1 is not the start of a log of this organization"]);
}

async fn signature_and_export_are_verified(database: Database) {
    let folder = tempfile::tempdir().unwrap();
    let [key, public, other] = [("key", KEY), ("public", PUBLIC_KEY), ("other", OTHER_KEY)]
        .map(|(name, content)| file(&folder, name, content).to_str().unwrap().to_owned());
    let signing_key = Some(PathBuf::from(&key));
    let options = Options { signing_key, public_url: Some("https://evidence.example.com/x"), ..options() };
    let service = TestService::start_with(database, options).await;
    record_changes(&service).await;
    let verified = log(&service, &["verify", "--key", &public]).await;
    verified.expect(0, &["entries of evidence.example.com/x/acme; the signature is valid"]);
    assert!(verified.stdout.contains("\n\n\u{2014} evidence.example.com/x/acme "), "{verified:?}");
    let wrong = log(&service, &["verify", "--key", &other]).await;
    wrong.expect(11, &["the checkpoint of the log is not signed with the key in"]);
    let since = file(&folder, "since", &verified.stdout.replace('\u{2014}', "\u{2014} x"))
        .to_str()
        .unwrap()
        .to_owned();
    log(&service, &["verify", "--since", &since])
        .await
        .expect(2, &["invalid checkpoint in", "invalid signature line"]);
    // Offline, without a service.
    let export = folder.path().join("export").to_str().unwrap().to_owned();
    log(&service, &["export", "--output-file", &export]).await.expect(0, &["exported "]);
    let offline = |export: String, public: String| {
        spawn_blocking(move || {
            supercargo().args(["log", "verify", "--file", &export, "--key", &public]).run()
        })
    };
    let checked = offline(export.clone(), public.clone()).await.unwrap();
    assert_eq!(checked.expect(0, &["the signature is valid"]).stdout, verified.stdout);
    let text = std::fs::read_to_string(&export).unwrap();
    std::fs::write(&export, text.replacen("of the nodes", "of the noses", 1)).unwrap();
    let checked = offline(export.clone(), public.clone()).await.unwrap();
    checked.expect(11, &["(allowance ", "does not match its record"]);
    let lines: Vec<_> = text.lines().collect();
    std::fs::write(&export, lines[..lines.len() - 1].join("\n")).unwrap();
    offline(export, public).await.unwrap().expect(2, &["has no checkpoint at its end"]);
}

async fn concurrent_reports_give_one_chain(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let mut reports = tokio::task::JoinSet::new();
    for environment in 0..4 {
        let path = format!("/environments/acme/env-{environment}/report/K8S?create=true");
        let requests: Vec<_> = "abcdef"
            .chars()
            .map(|digit| {
                let request = service.request(Method::PUT, ADMIN, &path);
                let body = report(&[pod("p", "cart:1", digit)]);
                request.header("Content-Type", "application/json").body(body)
            })
            .collect();
        reports.spawn(async move {
            for request in requests {
                assert_eq!(request.send().await.unwrap().status(), 201);
            }
        });
    }
    while let Some(reported) = reports.join_next().await {
        reported.unwrap();
    }
    log(&service, &["verify"]).await.expect(0, &[]);
    let of_environments = entries(&service).await.into_iter().filter(|entry| entry["kind"] == "environment");
    assert_eq!(of_environments.count(), 24);
}

async fn retention_removes_records_and_leaves_hashes(database: Database) {
    let service = TestService::start_with(database, options()).await;
    record_changes(&service).await;
    let database = service.stop().await;
    // Everything up to now is past its retention.
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Limits::default() };
    let retention = "    retention: 1s\n    attachmentRetention: 1s\n    auditRetention: 1s";
    let options = Options { limits, bootstrap: bootstrap(2, retention), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let removals = "SELECT record FROM log_entries WHERE kind = 'removal'";
    let removed = async || {
        let removals = service.database.rows(removals).await.concat();
        ["history/", "attachments/", "audit/"].iter().all(|subject| removals.contains(subject))
    };
    eventually("the records are removed", removed).await;
    let missing = async || {
        let entries = entries(&service).await;
        let missing =
            |kind: &str| entries.iter().any(|entry| entry["kind"] == kind && entry["record"].is_null());
        missing("environment") && missing("audit")
    };
    eventually("records are missing", missing).await;
    log(&service, &["verify"]).await.expect(0, &[]);
}

async fn only_administrators_read_the_log(database: Database) {
    let service = TestService::start(database).await;
    for (token, status) in [(ADMIN, 200), (READER, 403), (STRANGER, 403), (ATTESTER, 403), (REPORTER, 403)] {
        service.get(token, "/log/acme").await.expect(status);
    }
    for (query, field) in
        [("after=-1", "after"), ("per_page=0", "per_page"), ("per_page=501", "per_page"), ("page=2", "page")]
    {
        service.get(ADMIN, &format!("/log/acme?{query}")).await.assert_field_error(field, "expected");
    }
}

async fn checkpoint_is_sent_to_targets_that_ask_for_it(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let delivery = Delivery { interval: Duration::from_millis(20), ..Delivery::default() };
    let checkpoint_interval = Duration::from_millis(50);
    let actions = "    environments: [{name: prod}]
    actions:
      - {number: 1, name: auditors, environments: ['*'], triggers: [ON_CHECKPOINT], targets: [{name: a, type: WEBHOOK, url: {file: url}, secrets: [{file: secret}]}]}
      - {number: 2, name: ops, environments: ['*'], triggers: [ON_STARTED_ARTIFACT], targets: [{name: o, type: WEBHOOK, url: {file: url}, secrets: [{file: secret}]}]}";
    let options = Options {
        limits: Limits { delivery, checkpoint_interval, ..Limits::default() },
        bootstrap: bootstrap(1, actions),
        allowed_internal: &["127.0.0.1/32"],
        files: vec![("url", receiver.url()), ("secret", "whsec-0123456789abcdef0123456789".to_owned())],
        ..Options::default()
    };
    let service = TestService::start_with(database, options).await;
    eventually("a checkpoint is sent", async || !receiver.requests().is_empty()).await;
    let sent: Value = serde_json::from_slice(&receiver.requests()[0].body).unwrap();
    assert_eq!((&sent["trigger"], &sent["organization"]), (&json!("ON_CHECKPOINT"), &json!("acme")));
    assert!(
        sent["checkpoint"].as_str().unwrap().starts_with(&format!("{}/acme\n", service.host())),
        "{sent}"
    );
    assert!(sent["html_url"].as_str().unwrap().ends_with("/ui/acme"), "{sent}");
    // A log without new entries has no further checkpoint.
    let checkpoints =
        "SELECT CAST(checkpoint_size - size AS TEXT) FROM log_heads WHERE organization = 'acme'";
    eventually("all entries are covered", async || service.database.rows(checkpoints).await == ["0"]).await;
}

crate::service::on_both! {
    unchanged_log_is_verified_page_by_page,
    artifact_recorded_again_with_an_earlier_clock_is_verified,
    closed_declarations_are_verified,
    changed_byte_is_found_and_its_record_named,
    removed_and_added_rows_are_found,
    changed_chain_is_found,
    signature_and_export_are_verified,
    concurrent_reports_give_one_chain,
    retention_removes_records_and_leaves_hashes,
    checkpoint_is_sent_to_targets_that_ask_for_it,
}

crate::service::on_sqlite! {
    only_administrators_read_the_log,
}
