//! Removal of rows past their retention, and the horizon of complete history.

use std::time::Duration;

use model::Fingerprint;
use reqwest::multipart::Part;
use serde_json::json;
use service::Limits;
use store::{DatabaseTimeouts, Store, Transaction};

use crate::fake::{Reply, Server};
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, TestService, form, pod};

/// In microseconds.
const DAY: i64 = 86_400_000_000;

/// Frequent rounds, and `more` below `acme`.
fn options(more: &str) -> Options {
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Limits::default() };
    Options { limits, bootstrap: bootstrap(1, more), ..Options::default() }
}

async fn report_pods(service: &TestService, environment: &str, pods: &[(&str, char)]) {
    let pods: Vec<_> = pods.iter().map(|(name, digit)| pod(name, "i:1", *digit)).collect();
    let response = service.report(ADMIN, environment, report(&pods)).await;
    assert!(response.status.is_success(), "{response:?}");
}

async fn rows_past_retention_are_removed_and_the_horizon_is_recorded(database: Database) {
    let service = TestService::start_with(database, options("    retention: 1000d")).await;
    for digit in ['a', 'b', 'b'] {
        let body = report(&[pod("runs", "x:1", 'f'), pod("p", "i:1", digit)]);
        let response = service.report(ADMIN, "prod", body).await;
        assert!(response.status.is_success(), "{response:?}");
    }
    let history =
        "SELECT CAST(COUNT(*) AS TEXT) FROM pod_runs UNION ALL SELECT CAST(COUNT(*) AS TEXT) FROM snapshots";
    assert_eq!(service.database.rows(history).await, ["3", "2"]);
    // Makes the ended pod, its artifact and the first snapshot older than a thousand days.
    for (table, set) in [
        ("pod_runs", "ended_at = ended_at"),
        ("artifact_runs", "ended_at = ended_at"),
        ("snapshots", "received_at = 0, superseded_at = superseded_at"),
    ] {
        let ended = if table == "snapshots" { "superseded_at" } else { "ended_at" };
        let age = format!("UPDATE {table} SET {set} - {} WHERE {ended} IS NOT NULL", 1_001 * DAY);
        service.database.execute(&age).await;
    }
    eventually("the rows are removed", async || service.database.rows(history).await == ["2", "1"]).await;
    let remaining = "SELECT name FROM artifact_runs ORDER BY name";
    assert_eq!(service.database.rows(remaining).await, ["i:1", "x:1"]);
    let counted = async || service.metrics().await.contains("supercargo_retention_removed_rows_total 4");
    eventually("the metric counts them", counted).await;
    let horizon = "SELECT CASE WHEN horizon_at > 0 THEN 'yes' END FROM environments";
    assert_eq!(service.database.rows(horizon).await, ["yes"]);
}

/// The first digit of the digest in each workload.
async fn workloads(database: &Database) -> Vec<String> {
    database.rows("SELECT substr(digests, 9, 1) FROM workloads ORDER BY 1").await
}

async fn workloads_are_removed_with_their_last_pod(database: Database) {
    let service = TestService::start_with(database, options("    retention: 1000d")).await;
    // Workload f has two pods, of which one runs.
    for digit in ['a', 'b', 'c', 'd'] {
        let gone = if digit == 'a' { &[("gone", 'f')][..] } else { &[] };
        report_pods(&service, "prod", &[&[("runs", 'f'), ("p", digit)][..], gone].concat()).await;
    }
    assert_eq!(workloads(&service.database).await, ["a", "b", "c", "d", "f"]);
    let age = format!(
        "UPDATE pod_runs SET ended_at = ended_at - {} WHERE ended_at IS NOT NULL
         AND (pod = 'gone' OR EXISTS (SELECT 1 FROM workloads WHERE hash = workload AND digests LIKE '%:\"a%'))",
        1_001 * DAY
    );
    service.database.execute(&age).await;
    eventually("workload a is removed", async || !workloads(&service.database).await.contains(&"a".into()))
        .await;
    let pods = "SELECT CAST(COUNT(*) AS TEXT) FROM pod_runs";
    assert_eq!(service.database.rows(pods).await, ["4"]);
    assert_eq!(workloads(&service.database).await, ["b", "c", "d", "f"]);
}

async fn orphaned_workloads_are_removed_after_the_start(database: Database) {
    let service = TestService::start(database).await;
    report_pods(&service, "prod", &[("p", 'a')]).await;
    report_pods(&service, "prod", &[("p", 'b')]).await;
    let database = service.stop().await;
    // Three batches, in each of two organizations.
    let hash = if database.is_postgres() { "sha256(CAST(i AS TEXT)::bytea)" } else { "randomblob(32)" };
    for organization in ["acme", "stranger"] {
        let orphans = format!(
            "INSERT INTO workloads (organization, hash, digests, owners)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
             SELECT '{organization}', {hash}, '{{}}', '[]' FROM n"
        );
        database.execute(&orphans).await;
    }
    let service = TestService::start_with(database, options("")).await;
    let is_swept = async || workloads(&service.database).await.len() == 2;
    eventually("the orphans are removed", is_swept).await;
    assert_eq!(workloads(&service.database).await, ["a", "b"]);
}

async fn workload_of_a_pod_cannot_be_removed(database: Database) {
    let service = TestService::start(database).await;
    report_pods(&service, "prod", &[("p", 'a')]).await;
    let store =
        Store::open(&service.database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let removed = match &mut store.write().await.unwrap() {
        Transaction::Sqlite(connection) => {
            sqlx::query("DELETE FROM workloads").execute(&mut **connection).await.map(drop)
        }
        Transaction::Postgres(connection) => {
            sqlx::query("DELETE FROM workloads").execute(&mut **connection).await.map(drop)
        }
    };
    let error = removed.unwrap_err();
    assert!(
        error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation),
        "{error}"
    );
    store.close().await;
}

/// PostgreSQL only: SQLite has a single writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn workload_of_a_report_in_progress_is_not_removed() {
    let service = TestService::start_with(Database::postgres().await, options("    retention: 1000d")).await;
    for digit in ['a', 'b'] {
        report_pods(&service, "prod", &[("p", digit)]).await;
    }
    // A report that starts a pod of workload a, and is not committed.
    let store =
        Store::open(&service.database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let mut reporting = store.write().await.unwrap();
    store::policies::verdicts::lock_shared(&mut reporting.of("acme")).await.unwrap();
    let Transaction::Postgres(connection) = &mut reporting else { panic!("expected PostgreSQL") };
    let start = "INSERT INTO pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by,
                                       started_at)
                 SELECT organization, gen_random_uuid(), environment, namespace, 'again', created_at, workload,
                        reported_by, started_at
                 FROM pod_runs WHERE ended_at IS NOT NULL";
    sqlx::raw_sql(start).execute(&mut **connection).await.unwrap();

    let age = format!("UPDATE pod_runs SET ended_at = ended_at - {}", 1_001 * DAY);
    service.database.execute(&age).await;
    let waits = "SELECT 'waits' FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually("the removal waits", async || service.database.rows(waits).await == ["waits"]).await;
    assert_eq!(service.database.rows("SELECT pod FROM pod_runs").await, ["p"]);
    reporting.commit().await.unwrap();
    eventually("the removal ends", async || service.database.rows(waits).await.is_empty()).await;
    let database = service.stop().await;
    assert_eq!(workloads(&database).await, ["a", "b"]);
    store.close().await;
}

async fn notifications_are_removed_after_thirty_days_and_their_events_stay(database: Database) {
    let receiver = Server::start(|_| Reply::text(204, ""));
    let actions = "    actions: [{number: 1, name: ops, environments: [prod], targets: [{name: ops, type: WEBHOOK, url: {file: url}, secrets: [{file: secret}]}],
               triggers: [ON_STARTED_ARTIFACT, ON_SCALED_ARTIFACT, ON_EXITED_ARTIFACT]}]";
    let options = Options {
        allowed_internal: &["127.0.0.1/32"],
        files: vec![("url", receiver.url()), ("secret", "whsec-0123456789abcdef0123456789".to_owned())],
        ..options(actions)
    };
    let service = TestService::start_with(database, options).await;
    for pods in [&[("p", 'a')][..], &[("p", 'a'), ("q", 'a')], &[("p", 'b')]] {
        report_pods(&service, "prod", pods).await;
    }
    let kinds = |condition: &str| {
        format!(
            "SELECT e.kind FROM notifications n JOIN events e ON e.id = n.event WHERE {condition} ORDER BY e.kind"
        )
    };
    let sent = async || service.database.rows(&kinds("n.sent_at IS NOT NULL")).await.len() == 4;
    eventually("all are sent", sent).await;
    // A pending notification of a removed target is never due.
    for (kind, set, days) in [
        ("ON_STARTED_ARTIFACT", "sent_at = sent_at", 29),
        ("ON_SCALED_ARTIFACT", "sent_at = sent_at", 31),
        ("ON_EXITED_ARTIFACT", "sent_at = NULL, due_at = 9000000000000000000", 31),
    ] {
        let age = format!(
            "UPDATE notifications SET {set}, created_at = created_at - {}
             WHERE event IN (SELECT id FROM events WHERE kind = '{kind}')",
            days * DAY
        );
        service.database.execute(&age).await;
    }
    let remaining = async || service.database.rows(&kinds("n.id = n.id")).await.len() == 2;
    eventually("old notifications are removed", remaining).await;
    assert_eq!(service.database.rows(&kinds("n.id = n.id")).await, ["ON_STARTED_ARTIFACT"; 2]);
    assert_eq!(service.database.rows("SELECT CAST(COUNT(*) AS TEXT) FROM events").await, ["4"]);
}

/// Attests with this file, and returns the path of the page.
async fn attest_file(service: &TestService, name: &str, content: &str) -> String {
    let results = json!([{"name": "suite", "failures": 1, "errors": 0, "total": 2, "duration": 1.0}]);
    let data = json!({"attestation_name": name, "junit_results": results});
    let file = Part::bytes(content.as_bytes().to_vec()).file_name("junit.xml");
    service.attest(ADMIN, "cart", "t-1", form(&data).part("attachment_file", file)).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    format!(
        "/ui/acme/flows/cart/trails/t-1/attestations/{}",
        listed["data"][0]["attestation_id"].as_str().unwrap()
    )
}

const FAILED: &str =
    r#"<testsuite name="s"><testcase name="adds up"><failure message="no"/></testcase></testsuite>"#;

async fn attachments_past_their_retention_are_removed_and_described(database: Database) {
    let service = TestService::start_with(database, options("    attachmentRetention: 1000d")).await;
    let old = attest_file(&service, "old", FAILED).await;
    attest_file(&service, "shared before", "<testsuite/>").await;
    let age = async |table: &str, condition: &str| {
        let age = format!("UPDATE {table} SET created_at = created_at - {} WHERE {condition}", 1_001 * DAY);
        service.database.execute(&age).await;
    };
    attest_file(&service, "shared", "<testsuite/>").await;
    age("attachments", "created_at > 0").await;
    age("attestations", "name <> 'shared'").await;
    let contents = "SELECT CAST(length(content) AS TEXT) FROM attachments ORDER BY 1";
    let shared = ["<testsuite/>".len().to_string()];
    eventually("the old file is removed", async || service.database.rows(contents).await == shared).await;

    let page = Browser::read_page(&service, &old).await;
    let facts = format!("<bdi>junit.xml</bdi>, {} bytes, removed by retention at <time", FAILED.len());
    let hash = format!("sha256:{}", Fingerprint::from_content(FAILED.as_bytes()));
    assert_contains(&page, &["the attached file was removed by retention", &facts, &hash]);
    let counted = async || service.metrics().await.contains("supercargo_retention_removed_rows_total 1\n");
    eventually("the metric counts it", counted).await;

    // The file is stored again.
    let new = attest_file(&service, "new", FAILED).await;
    for path in [&old, &new] {
        let page = Browser::read_page(&service, path).await;
        assert_contains(&page, &["adds up", &hash]);
        assert!(!page.contains("removed by retention"), "{page}");
    }
}

async fn audit_entries_past_their_retention_are_removed(database: Database) {
    let service = TestService::start_with(database, options("    auditRetention: 1000d")).await;
    let age = "UPDATE audit SET at = -1 WHERE organization = 'stranger' OR change LIKE '%reader%'";
    service.database.execute(age).await;
    let audit = async |condition: &str| {
        let count = format!("SELECT CAST(COUNT(*) AS TEXT) FROM audit WHERE {condition}");
        service.database.rows(&count).await.concat()
    };
    eventually("old entries are removed", async || audit("organization = 'acme' AND at < 0").await == "0")
        .await;
    assert_ne!(audit("organization = 'acme'").await, "0");
    assert_ne!(audit("organization = 'stranger' AND at < 0").await, "0");
}

async fn change_of_a_retention_is_audited(database: Database) {
    let service = TestService::start_with(database, options("    retention: 36h")).await;
    service.reload(&bootstrap(2, "    retention: 36h\n    auditRetention: 400d")).await;
    service.reload(&bootstrap(3, "    retention: 36h\n    auditRetention: 400d")).await;
    let changes = "SELECT change FROM audit WHERE change LIKE '%retention%' ORDER BY at, id";
    assert_eq!(
        service.database.rows(changes).await,
        [
            "the retention of the history is 129600s, of attached files unlimited, of the audit log unlimited",
            "the retention of the history is 129600s, of attached files unlimited, of the audit log 400d",
        ]
    );
}

crate::service::on_both!(
    workload_of_a_pod_cannot_be_removed,
    rows_past_retention_are_removed_and_the_horizon_is_recorded,
    workloads_are_removed_with_their_last_pod,
    orphaned_workloads_are_removed_after_the_start,
    notifications_are_removed_after_thirty_days_and_their_events_stay,
    attachments_past_their_retention_are_removed_and_described,
    audit_entries_past_their_retention_are_removed,
);

crate::service::on_sqlite!(change_of_a_retention_is_audited);
