//! The log of a week with every kind of row and a retention, under a changed clock: it verifies each day, and no tampering
//! with the database does.

use std::time::Duration;

use model::Fingerprint;
use model::log::{Head, Kind, NewEntry, Removal, record_hash};
use reqwest::Method;
use reqwest::multipart::Part;
use serde_json::{Value, json};
use service::{Clock, Limits};
use tempfile::TempDir;

use crate::program::Outcome;
use crate::service::records::log::log;
use crate::service::report;
use crate::service::rules::policies;
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, ATTESTER, Database, Response, TestService, digest, form, pod};

const DAY: Duration = Duration::from_hours(24);
const DAYS: u32 = 7;
/// Organizations keep the audit log of the first days, and from this day on forever.
const AUDIT_KEPT: u32 = 6;
const COMMIT: &str = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";

/// Each kind of declaration in two variants, of which each ends the rows of the other.
fn declared(day: u32) -> String {
    let (generation, odd) = (i64::from(day) + 1, day % 2);
    let audit = if day < AUDIT_KEPT { "    auditRetention: 2d\n" } else { "" };
    let allowed = digest(if odd == 1 { 'e' } else { 'f' });
    bootstrap(
        generation,
        &format!(
            "    retention: {hours}h
    attachmentRetention: 2d
{audit}    issuers:
      - name: cluster
        issuer: https://oidc.example.com/{odd}
        audience: supercargo
        rules: [{{claims: {{sub: agent}}, role: report, environments: [prod]}}]
    trust: [{{name: github, identities: [{{issuer: 'https://oidc.example.com', subject: 'https://example.com/acme/{odd}'}}]}}]
    flows:
      - name: cart
        template: {{attestations: [{{name: unit{odd}, type: junit}}]}}
        approvals: [{{number: {number}, artifact: {target}, base: {target}, name: \"cart:1\", state: APPROVED,
                      approvals: [{{by: kim, at: 2026-09-01T12:00:00Z, comment: fine}}]}}]
      - {{name: web, repositories: [acme/web-{odd}]}}
    policies: [{{name: rules{odd}, text: \"_schema: x/v1\"}}]
    environments:
      - name: prod
        silentAfter: 1h
        policy: {{attestations: [{{flow: cart, name: unit{odd}}}]}}
        policies: [rules{odd}]
        allowed: [{{artifact: {allowed}, reason: of the nodes, author: ops}}]",
            hours = 48 + odd,
            number = generation * 100,
            target = digest('a'),
        ),
    )
}

async fn send(service: &TestService, method: Method, path: &str, body: &Value) {
    let mut request = service.request(method, ADMIN, path);
    if !body.is_null() {
        request = request.header("Content-Type", "application/json").body(body.to_string());
    }
    let response = Response::from_request(request).await;
    assert!(response.status.is_success(), "{path}: {response:?}");
}

/// The changes of a day, each of another kind of row.
const CHANGES: [&str; 14] = [
    "declarations",
    "trail",
    "attestation",
    "artifact",
    "image index",
    "approval",
    "withdrawal",
    "policy",
    "attachment",
    "detachment",
    "allowance",
    "token",
    "repository",
    "report",
];

async fn change(service: &TestService, change: &str, day: u32) {
    let digit = char::from_digit(day, 16).unwrap();
    let commit = json!({"sha1": COMMIT, "author": "Kim <kim@example.com>"});
    let repository = json!({"name": "acme/cart", "url": "https://example.com/acme/cart"});
    match change {
        "declarations" => service.reload(&declared(day)).await,
        "trail" => {
            let described = form(&json!({"name": format!("t{day}"), "description": "a release"}));
            let begin = service.request(Method::PUT, ATTESTER, "/trails/acme/cart").multipart(described);
            Response::from_request(begin).await.expect(201);
        }
        "attestation" => {
            let data = json!({
                "attestation_name": "unit", "artifact_fingerprint": digest(digit), "git_commit_info": commit,
                "junit_results": [{"name": "suite", "total": 3, "failures": 0, "errors": 0}], "repo_info": repository,
            });
            let file = Part::text(format!("<testsuites day='{day}'/>")).file_name("junit.xml");
            let form = form(&data).part("attachment_file", file);
            service.attest(ATTESTER, "cart", &format!("t{day}"), form).await.expect(201);
        }
        "artifact" => {
            let body = json!({"fingerprint": digest(char::from_digit(day + 7, 16).unwrap()), "filename": "cart:2",
                              "git_commit": COMMIT, "git_commit_info": commit, "repo_info": repository});
            send(service, Method::POST, "/artifacts/acme/cart", &body).await;
            // The origin that counts, of a flow that owns its repository, without a commit.
            let owned = json!({"fingerprint": body["fingerprint"], "filename": "cart:2",
                               "repo_info": {"name": format!("acme/web-{}", day % 2)}});
            send(service, Method::POST, "/artifacts/acme/web", &owned).await;
        }
        "image index" => {
            let manifest = json!({"digest": format!("sha256:{}", digest(digit)),
                                  "platform": {"os": "linux", "architecture": "arm64"}});
            let document = json!({"schemaVersion": 2, "manifests": [manifest]}).to_string();
            let fingerprint = Fingerprint::from_content(document.as_bytes());
            let body = json!({"document": document, "fingerprint": fingerprint});
            send(service, Method::POST, "/artifacts/acme/cart/image-index", &body).await;
        }
        "approval" => {
            let body = json!({"artifact_fingerprint": digest(digit), "approvals": [{"state": "APPROVED"}]});
            send(service, Method::POST, "/approvals/acme/cart", &body).await;
        }
        "withdrawal" => {
            let last = "SELECT CAST(MAX(number) AS TEXT) FROM approvals WHERE created_by IS NOT NULL";
            let number = service.database.rows(last).await.concat();
            let body = json!({"comment": "a mistake"});
            send(service, Method::PUT, &format!("/approvals/acme/cart/{number}/withdraw"), &body).await;
        }
        "policy" => {
            let rules = format!("attestations: [{{name: unit{day}, type: junit}}]");
            let put = policies::put(service, ADMIN, "runtime", &rules).await;
            assert!(put.status.is_success(), "{put:?}");
        }
        "attachment" => _ = policies::attach(service, "prod", &["runtime"]).await.expect(200),
        "detachment" => {
            let body = json!({"policy_names": ["runtime"]});
            send(service, Method::DELETE, "/environments/acme/prod/policies", &body).await;
        }
        "allowance" => {
            let body = json!({"artifact_fingerprint": digest('9'), "description": format!("day {day}")});
            send(service, Method::PUT, "/allowlists/acme/prod", &body).await;
        }
        "token" => {
            let body = json!({"name": format!("ci{day}"), "role": "read"});
            send(service, Method::POST, "/tokens/acme", &body).await;
            send(service, Method::DELETE, &format!("/tokens/acme/ci{day}"), &Value::Null).await;
        }
        "repository" => {
            for operation in ["close", "reopen"] {
                send(service, Method::PUT, &format!("/repos/acme/{operation}/acme/cart"), &Value::Null).await;
            }
        }
        _ => {
            let pods = [pod("p", "cart:1", digit), pod("q", "cart:1", 'f')];
            service.report(ADMIN, "prod", report(&pods)).await.expect(201);
        }
    }
}

async fn is_everything_removed(service: &TestService) -> bool {
    let removals =
        service.database.rows("SELECT record FROM log_entries WHERE kind = 'removal'").await.concat();
    ["history/", "attachments/", "audit/"].iter().all(|subject| removals.contains(subject))
}

/// A service whose log is a week old, and the checkpoint of the day before.
async fn week(database: Database) -> (TestService, TempDir, String) {
    let clock = Clock::default();
    let at = |day: u32| clock.set_back(DAY * (DAYS - day));
    at(0);
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Options::default().limits };
    let bootstrap = declared(0);
    let options = Options { limits, bootstrap, clock: clock.clone(), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let folder = tempfile::tempdir().unwrap();
    let since = folder.path().join("checkpoint").to_str().unwrap().to_owned();
    for day in 0..=DAYS {
        at(day);
        for name in CHANGES.iter().filter(|_| day > 0) {
            change(&service, name, day).await;
            // The first rows of a kind, in a log that is a day old.
            if day == 1 {
                let verified = log(&service, &["verify"]).await;
                assert_eq!(verified.code, 0, "after the change of kind {name}: {verified:?}");
            }
        }
        if day + 1 == AUDIT_KEPT {
            eventually("old records are removed", async || is_everything_removed(&service).await).await;
        }
        let arguments = if day == 0 { vec!["verify"] } else { vec!["verify", "--since", &since] };
        let verified = log(&service, &arguments).await;
        assert_eq!(verified.code, 0, "day {day}: {verified:?}");
        if day < DAYS {
            std::fs::write(&since, verified.stdout).unwrap();
        }
    }
    let kinds = "SELECT DISTINCT kind FROM log_entries WHERE organization = 'acme'";
    let mut kinds = service.database.rows(kinds).await;
    kinds.sort_unstable();
    let mut all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    all.sort_unstable();
    assert_eq!(kinds, all);
    (service, folder, since)
}

async fn log_of_a_week_is_verified_each_day(database: Database) {
    week(database).await;
}

/// Statements that append an entry and move the head, as the service does.
async fn forged(database: &Database, new: NewEntry) -> String {
    let head = "SELECT CAST(size AS TEXT) || ' ' || hex(hash) FROM log_heads WHERE organization = 'acme'";
    let head = database.rows(head).await.concat();
    let (size, hash) = head.split_once(' ').unwrap();
    let hash = Fingerprint::from_hex(&hash.to_lowercase()).unwrap();
    let mut head = Head { size: size.parse().unwrap(), hash };
    let entry = head.append(new);
    let [record, hash] = [entry.record_hash, entry.hash].map(|hash| database.bytes(&hash.to_string()));
    format!(
        "INSERT INTO log_entries (organization, sequence, at, kind, record, record_hash, hash)
         VALUES ('acme', {size}, {at}, '{kind}', '{id}', {record}, {hash});
         UPDATE log_heads SET size = {size}, hash = {hash} WHERE organization = 'acme';",
        size = head.size,
        at = entry.at,
        kind = entry.kind,
        id = entry.id,
    )
}

/// Tampers, verifies, and restores the tables.
async fn tamper(service: &TestService, tampering: &Tampering, arguments: &[&str]) -> Outcome {
    let Tampering { tables, change, .. } = tampering;
    let keep = |table: &&str| format!("CREATE TABLE kept_{table} AS SELECT * FROM {table};");
    let restore = |table: &&str| {
        format!(
            "DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}; DROP TABLE kept_{table};"
        )
    };
    let keep: String = tables.iter().map(keep).collect();
    service.database.execute(&format!("PRAGMA foreign_keys = OFF; {keep} {change}")).await;
    let found = log(service, arguments).await;
    let restore: String = tables.iter().map(restore).collect();
    service.database.execute(&format!("PRAGMA foreign_keys = OFF; {restore}")).await;
    found
}

/// A copy of the first row of a table with a new identifier and other values of some columns.
async fn copy(database: &Database, table: &str, condition: &str, values: &[(&str, &str)]) -> String {
    let columns = database.rows(&format!("SELECT name FROM pragma_table_info('{table}')")).await;
    let value = |column: &String| {
        let changed = values.iter().find(|(name, _)| name == column).map(|(_, value)| (*value).to_owned());
        changed.unwrap_or_else(|| if column == "id" { "randomblob(16)".to_owned() } else { column.clone() })
    };
    let selected: Vec<_> = columns.iter().map(value).collect();
    format!(
        "INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE {condition} LIMIT 1",
        columns.join(", "),
        selected.join(", ")
    )
}

/// A change of the database past the service.
struct Tampering {
    what: String,
    tables: Vec<&'static str>,
    change: String,
}

/// Rows that are added with a time in the first hour of the log, or after the horizon of records that the retention removes.
async fn inserts(database: &Database, early: &str, recent: &str) -> Vec<Tampering> {
    let secret = database.bytes(&Fingerprint::from_content(b"forged").to_string());
    let secret = secret.as_str();
    let (acme, open) = ("organization = 'acme'", "organization = 'acme' AND closed_at IS NULL");
    let (created, closed) = (("created_at", early), ("closed_at", "NULL"));
    let mut inserts = Vec::new();
    for (table, condition, values) in [
        ("attestations", acme, vec![created]),
        ("reported_artifacts", acme, vec![created]),
        ("image_indexes", acme, vec![created, ("fingerprint", secret)]),
        ("audit", acme, vec![("at", recent)]),
        ("allowances", acme, vec![created, closed, ("fingerprint", secret)]),
        ("approvals", acme, vec![created, ("modified_at", early), ("number", "99"), closed]),
        ("flow_templates", acme, vec![created, ("version", "99"), ("closed_at", early)]),
        ("policy_versions", acme, vec![created, ("version", "99"), ("closed_at", early)]),
        ("policy_attachments", acme, vec![("attached_at", early), ("closed_at", early)]),
        ("flow_ownerships", acme, vec![created, ("flow", "'cart'"), closed]),
        ("tokens", "name = 'admin' AND organization = 'acme'", vec![created, closed, ("sha256", secret)]),
        (
            "tokens",
            "name = 'admin' AND organization = 'acme'",
            vec![("created_at", "-9e999"), closed, ("sha256", secret)],
        ),
        ("issuers", open, vec![created, ("content", ADMIN_RULE)]),
        ("trusted_signers", open, vec![created]),
        ("retentions", open, vec![created, ("audit", "1"), ("closed_at", early)]),
        ("repositories", acme, vec![created, ("name", "'acme/forged'")]),
        ("trails", acme, vec![created, ("name", "'forged'")]),
        ("artifact_authors", acme, vec![("author", secret)]),
        ("flow_artifacts", acme, vec![created, ("fingerprint", secret)]),
        ("claims", acme, vec![("fingerprint", secret)]),
        ("provenance", acme, vec![("fingerprint", secret)]),
        ("latest_attestations", acme, vec![("fingerprint", secret)]),
        ("snapshots", acme, vec![("snapshot", "99"), ("received_at", recent)]),
    ] {
        let insert = copy(database, table, condition, &values).await;
        inserts.push(Tampering {
            what: format!("inserted into {table}"),
            tables: vec![table],
            change: insert,
        });
    }
    inserts
}

/// The content of an issuer, with another role.
const ADMIN_RULE: &str = r#"replace(content, '"report"', '"admin"')"#;

/// Tables, and changes of their rows.
const CHANGED_ROWS: [(&str, &str); 41] = [
    ("attestations", "UPDATE attestations SET is_compliant = NOT is_compliant"),
    ("attested_artifacts", "DELETE FROM attested_artifacts"),
    ("artifact_authors", "DELETE FROM artifact_authors"),
    ("flow_artifacts", "UPDATE flow_artifacts SET created_at = created_at - 1"),
    ("flow_artifacts", "DELETE FROM flow_artifacts WHERE flow = 'web'"),
    ("flow_artifacts", "UPDATE flow_artifacts SET report = NULL"),
    ("flow_artifacts", "UPDATE flow_artifacts SET modified_at = modified_at + 1"),
    ("provenance", "UPDATE provenance SET flow = 'cart' WHERE flow = 'web'"),
    ("tokens", "UPDATE tokens SET role = 'admin' WHERE name = 'reader'"),
    ("tokens", "UPDATE tokens SET closed_at = NULL WHERE name = 'ci2'"),
    ("issuers", "UPDATE issuers SET content = content || ' '"),
    ("issuers", "DELETE FROM issuers"),
    ("retentions", "UPDATE retentions SET history = 1 WHERE closed_at IS NULL"),
    ("allowances", "DELETE FROM allowances WHERE reason = 'day 1'"),
    ("policy_versions", "UPDATE policy_versions SET content = ''"),
    ("approvals", "UPDATE approvals SET closed_at = NULL, withdrawn_by = NULL WHERE created_by = 'admin'"),
    ("flow_ownerships", "UPDATE flow_ownerships SET content = '{}'"),
    ("verdicts", "UPDATE verdicts SET compliance = 'COMPLIANT', is_allowed = NOT is_allowed"),
    ("pod_runs", "UPDATE pod_runs SET pod = 'other' WHERE ended_at IS NOT NULL"),
    ("artifact_runs", "DELETE FROM artifact_runs WHERE ended_at IS NOT NULL"),
    ("snapshots", "DELETE FROM snapshots WHERE snapshot = (SELECT MAX(snapshot) FROM snapshots)"),
    ("gaps", "DELETE FROM gaps"),
    ("image_manifests", "UPDATE image_manifests SET platform = 'linux/other'"),
    ("trails", "UPDATE trails SET description = 'other'"),
    // SQLite stores infinity, which is before each time.
    ("policy_attachments", "UPDATE policy_attachments SET closed_at = -9e999 WHERE closed_at IS NULL"),
    ("policy_versions", "UPDATE policy_versions SET closed_at = -9e999 WHERE closed_at IS NULL"),
    ("allowances", "UPDATE allowances SET closed_at = -9e999 WHERE closed_at IS NULL"),
    ("approvals", "UPDATE approvals SET closed_at = -9e999 WHERE closed_at IS NULL"),
    ("issuers", "UPDATE issuers SET closed_at = -9e999 WHERE closed_at IS NULL"),
    ("flow_ownerships", "UPDATE flow_ownerships SET closed_at = -9e999 WHERE closed_at IS NULL"),
    ("verdicts", "UPDATE verdicts SET until_at = -9e999 WHERE until_at IS NULL"),
    ("artifact_runs", "UPDATE artifact_runs SET ended_at = -9e999 WHERE ended_at IS NULL"),
    ("pod_runs", "UPDATE pod_runs SET ended_at = -9e999 WHERE ended_at IS NULL"),
    // Before the horizon of the retention.
    ("verdicts", "UPDATE verdicts SET until_at = 1 WHERE until_at IS NULL"),
    ("artifact_runs", "UPDATE artifact_runs SET ended_at = 1 WHERE ended_at IS NULL"),
    ("pod_runs", "UPDATE pod_runs SET ended_at = 1 WHERE ended_at IS NULL"),
    ("repositories", "UPDATE repositories SET url = 'https://example.com/other'"),
    ("attachments", "DELETE FROM attachments"),
    ("audit", "DELETE FROM audit WHERE organization = 'acme'"),
    ("log_entries", "DELETE FROM log_entries WHERE organization = 'acme' AND sequence = 9"),
    ("log_entries", "UPDATE log_entries SET at = at + 1 WHERE organization = 'acme' AND sequence = 9"),
];

/// Changed origins that match a claim: one that does not count, and a commit that nobody named.
fn origins() -> [Tampering; 2] {
    const COLUMNS: &str = "organization, repository, fingerprint, flow, commit_sha, commit_url, reported_by, recorded_at, priority";
    let other = format!(
        "DELETE FROM provenance WHERE flow = 'web';
         INSERT INTO provenance ({COLUMNS}) SELECT {COLUMNS} FROM claims c
         WHERE flow = 'cart' AND EXISTS (SELECT 1 FROM claims w WHERE w.fingerprint = c.fingerprint AND w.flow = 'web')"
    );
    let commit = format!(
        "UPDATE claims SET commit_sha = '{COMMIT}', commit_report = randomblob(16) WHERE flow = 'web';
         UPDATE provenance SET commit_sha = '{COMMIT}' WHERE flow = 'web'"
    );
    [
        Tampering { what: "origin of another claim".to_owned(), tables: vec!["provenance"], change: other },
        Tampering {
            what: "commit of an origin".to_owned(),
            tables: vec!["provenance", "claims"],
            change: commit,
        },
    ]
}

/// Removals that no retention explains: the audit log is kept forever, and history and files for two days.
async fn removals(database: &Database, now: i64) -> Vec<Tampering> {
    let mut removals = Vec::new();
    let history = database.rows("SELECT lower(hex(id)) FROM environments WHERE organization = 'acme'").await;
    let history = Removal::history(&uuid::Uuid::parse_str(&history.concat()).unwrap().to_string());
    for (subject, change) in [
        (
            Removal::AUDIT.to_owned(),
            format!(
                "DELETE FROM audit WHERE organization = 'acme';
                 UPDATE organizations SET audit_removed_before = {now} WHERE name = 'acme';"
            ),
        ),
        (Removal::ATTACHMENTS.to_owned(), "DELETE FROM attachments;".to_owned()),
        (
            history,
            format!(
                "DELETE FROM verdicts WHERE until_at IS NOT NULL;
                 UPDATE environments SET horizon_at = {now} WHERE organization = 'acme';"
            ),
        ),
    ] {
        let removal = Removal { subject, before: now };
        let record_hash = record_hash(&removal.record());
        let entry = NewEntry { at: now, kind: Kind::Removal, id: removal.id(), record_hash };
        let tables = vec![
            "log_entries",
            "log_heads",
            "audit",
            "organizations",
            "attachments",
            "verdicts",
            "environments",
        ];
        let change = change + &forged(database, entry).await;
        removals.push(Tampering { what: format!("forged removal of {}", removal.subject), tables, change });
    }
    removals
}

/// An issuer of the past with its entry of this time and a new head.
async fn backdated_issuer(database: &Database, early: &str, at: i64) -> Tampering {
    let content =
        format!("SELECT {ADMIN_RULE} FROM issuers WHERE organization = 'acme' AND closed_at IS NULL");
    let content = database.rows(&content).await.concat();
    let (id, created_at) = (uuid::Uuid::now_v7(), early.parse::<i64>().unwrap());
    let record = json!({
        "id": id.to_string(), "organization": "acme", "url": "https://x", "content": content,
        "created_at": created_at,
    });
    let record_hash = record_hash(&record);
    let entry = NewEntry { at, kind: Kind::Issuer, id: id.to_string(), record_hash };
    let change = format!(
        "INSERT INTO issuers (organization, id, url, content, created_at)
         VALUES ('acme', {}, 'https://x', '{content}', {early}); {}",
        database.uuid(id),
        forged(database, entry).await
    );
    let tables = vec!["log_entries", "log_heads", "issuers"];
    Tampering { what: "backdated issuer".to_owned(), tables, change }
}

async fn tampering_with_the_log_of_a_week_is_found(database: Database) {
    let (service, _folder, since) = week(database).await;
    let limits = Limits { retention_interval: DAY, ..Options::default().limits };
    let options = Options { limits, bootstrap: declared(DAYS), ..Options::default() };
    let service = TestService::start_with(service.stop().await, options).await;
    log(&service, &["verify", "--since", &since]).await.expect(0, &[]);
    let database = &service.database;
    let time = async |function: &str| -> i64 {
        let select =
            format!("SELECT CAST({function}(at) AS TEXT) FROM log_entries WHERE organization = 'acme'");
        database.rows(&select).await.concat().parse().unwrap()
    };
    let now = time("MAX").await;
    let early = (time("MIN").await + 60_000_000).to_string();
    let changed = CHANGED_ROWS.map(|(table, change)| {
        let (what, change) = (change.to_owned(), change.to_owned());
        Tampering { what, tables: vec![table], change }
    });
    let mut tamperings = inserts(database, &early, &(now - 60_000_000).to_string()).await;
    tamperings.extend(changed);
    tamperings.extend(origins());
    tamperings.extend(removals(database, now).await);
    assert!(tamperings.len() >= 27, "{}", tamperings.len());
    for tampering in &tamperings {
        let found = tamper(&service, tampering, &["verify"]).await;
        assert_eq!(found.code, 11, "{}: {}: {found:?}", tampering.what, tampering.change);
    }
    log(&service, &["verify"]).await.expect(0, &[]);
    // Contradicts only a checkpoint that is kept elsewhere.
    let backdated = backdated_issuer(database, &early, early.parse().unwrap()).await;
    tamper(&service, &backdated, &["verify"]).await.expect(0, &[]);
    let found = tamper(&service, &backdated, &["verify", "--since", &since]).await;
    found.expect(11, &["(issuer ", "was added after the checkpoint, and is dated "]);
    let dated_now = backdated_issuer(database, &early, now).await;
    let found = tamper(&service, &dated_now, &["verify"]).await;
    found.expect(11, &["(issuer ", "does not have the time of its record"]);
    log(&service, &["verify", "--since", &since]).await.expect(0, &[]);
}

crate::service::on_both! {
    log_of_a_week_is_verified_each_day,
}

crate::service::on_sqlite! {
    tampering_with_the_log_of_a_week_is_found,
}
