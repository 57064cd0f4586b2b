//! PostgreSQL as platform teams run it: behind a pooler, with locks that others hold, several replicas, a standby, and a
//! password that is rotated.

use std::error::Error as _;
use std::time::Duration;

use model::{Fingerprint, Timestamp};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;
use service::Clock;
use sqlx::types::Uuid;
use sqlx::{Connection, PgConnection};
use store::environments::reports::IfLocked;
use store::{DatabaseTimeouts, Error, Store, Transaction};

use crate::service::report;
use crate::service::support::browser::Browser;
use crate::service::support::process::{Process, client, command, report_once, run_to_failure};
use crate::service::support::test_service::{bootstrap, eventually, folder};
use crate::service::{ADMIN, Database, Options, READER, Response, STRANGER, TestService, form, pod};

const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(7281001)";

/// Locks that end soon.
const SHORT: DatabaseTimeouts = DatabaseTimeouts {
    connection: Duration::from_secs(5),
    statement: Duration::from_secs(2),
    lock: Duration::from_millis(200),
    migration: Duration::from_millis(200),
    max_connections: 4,
};

async fn open(database: &Database, timeouts: DatabaseTimeouts) -> Result<Store, Error> {
    Store::open(&database.url().parse().unwrap(), timeouts).await
}

async fn direct(database: &Database) -> PgConnection {
    PgConnection::connect(&database.direct_url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn start_waits_for_the_migration_of_another_process() {
    let database = Database::postgres().await;
    let mut other = direct(&database).await;
    let mut migrating = other.begin().await.unwrap();
    sqlx::query(MIGRATION_LOCK).execute(&mut *migrating).await.unwrap();
    let Err(error) = open(&database, SHORT).await else { panic!("the lock was ignored") };
    assert!(error.to_string().starts_with("another process has migrated the database for 200ms"), "{error}");

    let folder = folder(&bootstrap(1, ""));
    let process = Process::spawn(command(&folder, &database.url()), folder);
    process.wait_for_line("waiting up to 60s for another process that migrates the database");
    migrating.rollback().await.unwrap();
    process.wait_for_line("serving on ");
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait().0, Some(0));
    // Nothing of a start remains that a later one waits for.
    let process = Process::start(&database.url());
    assert!(!process.startup_log.contains("waiting"), "{}", process.startup_log);
}

/// Whether PostgreSQL returned this code.
fn has_code(error: &Error, code: &str) -> bool {
    let error = error.source().and_then(|error| error.downcast_ref::<sqlx::Error>());
    error
        .and_then(sqlx::Error::as_database_error)
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|is| is == code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn timeouts_of_locks_and_statements_hold() {
    let database = Database::postgres().await;
    let store = open(&database, SHORT).await.unwrap();
    let mut other = direct(&database).await;
    let mut locking = other.begin().await.unwrap();
    sqlx::query("LOCK TABLE environments, tokens").execute(&mut *locking).await.unwrap();

    let token = Fingerprint::from_content(b"");
    let confirmed = store::environments::reports::confirm(
        &store,
        "acme",
        "prod",
        token,
        "agent",
        Timestamp::EPOCH,
        Duration::ZERO,
    )
    .await
    .unwrap_err();
    assert!(has_code(&confirmed, "55P03"), "{confirmed:?}");
    let mut transaction = store.write().await.unwrap();
    let locked = store::environments::reports::lock(&mut transaction.of("acme"), "prod", IfLocked::Wait)
        .await
        .unwrap_err();
    assert!(has_code(&locked, "55P03"), "{locked:?}");
    drop(transaction);
    assert!(matches!(store::tokens::authentication::find(&store, token).await, Err(Error::Unavailable(_))));

    let mut transaction = store.read().await.unwrap();
    let Transaction::Postgres(connection) = &mut transaction else { panic!("expected PostgreSQL") };
    let slept = sqlx::query("SELECT pg_sleep(60)").execute(&mut **connection).await.unwrap_err();
    assert_eq!(slept.as_database_error().unwrap().code().as_deref(), Some("57014"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn lost_connections_are_replaced_before_a_transaction() {
    let database = Database::postgres().await;
    let store = open(&database, DatabaseTimeouts::default()).await.unwrap();
    let transactions = [store.write().await.unwrap(), store.write().await.unwrap()];
    for transaction in transactions {
        transaction.commit().await.unwrap();
    }
    let disconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.execute(disconnect).await;
    store.write().await.unwrap().commit().await.unwrap();
}

async fn one_replica_at_a_time_does_a_task(database: Database) {
    let store = Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
    let [first, second] = [Uuid::now_v7(), Uuid::now_v7()];
    let lease = async |replica, seconds| {
        let mut transaction = store.write().await.unwrap();
        let now = Timestamp::from_micros(1_800_000_000_000_000).later(Duration::from_secs(seconds));
        let has_lease = store::leases::take(&mut transaction, "retention", replica, now).await.unwrap();
        transaction.commit().await.unwrap();
        has_lease
    };
    // The first renews its lease, until it stops to.
    let taken = [
        (lease(first, 0).await, true),
        (lease(second, 1).await, false),
        (lease(first, 10).await, true),
        (lease(second, 24).await, false),
        (lease(second, 25).await, true),
        (lease(first, 26).await, false),
    ];
    assert!(taken.iter().all(|(is, expected)| is == expected), "{taken:?}");
    let mut transaction = store.write().await.unwrap();
    store::leases::give_back(&mut transaction, second).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(lease(first, 27).await);
    // The clock was set back by an hour.
    let mut transaction = store.write().await.unwrap();
    let earlier = Timestamp::from_micros(1_800_000_000_000_000 - 3_600_000_000);
    assert!(store::leases::take(&mut transaction, "retention", second, earlier).await.unwrap());
}

/// A replica that is about to commit a batch keeps the lease until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn replica_that_lost_its_lease_cannot_commit() {
    let database = Database::postgres().await;
    let store = open(&database, DatabaseTimeouts::default()).await.unwrap();
    let [first, second] = [Uuid::now_v7(), Uuid::now_v7()];
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    let later = now.later(Duration::from_mins(1));
    let (mut one, mut other) = (store.write().await.unwrap(), store.write().await.unwrap());
    assert!(store::leases::take(&mut one, "retention", first, now).await.unwrap());
    let committing = async {
        let waiting = "SELECT CAST(COUNT(*) AS TEXT) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("the other waits", async || database.rows(waiting).await == ["1"]).await;
        one.commit().await.unwrap();
    };
    // Waits for the commit, and then finds the lease ended.
    let (taken, ()) = tokio::join!(store::leases::take(&mut other, "retention", second, later), committing);
    assert!(taken.unwrap());
    other.commit().await.unwrap();
    let mut late = store.write().await.unwrap();
    assert!(!store::leases::take(&mut late, "retention", first, later).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn rotated_password_is_reread() {
    let database = Database::postgres().await;
    let Database::Postgres { name, .. } = &database else { panic!("expected PostgreSQL") };
    let role = format!("{name}_role");
    let set = |password: &str| format!("ALTER ROLE {role} PASSWORD '{password}'");
    for sql in [format!("CREATE ROLE {role} LOGIN SUPERUSER"), set("first")] {
        database.execute(&sql).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "first\n").unwrap();
    let url = database.direct_url();
    let (_, host) = url.rsplit_once('@').unwrap();
    let options = Options {
        database_url: Some(format!("postgres://{role}@{host}")),
        password_file: Some(file.clone()),
        ..Options::default()
    };
    let service = TestService::start_with(database, options).await;
    service.get(READER, "/trails/acme").await.expect(200);
    service.database.execute(&set("second")).await;
    std::fs::write(&file, "second\n").unwrap();
    let disconnect =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'");
    service.database.execute(&disconnect).await;
    eventually("the new password is used", async || service.get(READER, "/trails/acme").await.status == 200)
        .await;
    let database = service.stop().await;
    database.execute(&format!("DROP OWNED BY {role} CASCADE")).await;
    database.execute(&format!("DROP ROLE {role}")).await;
}

/// With a pooler, both starts share the connections of PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn several_starts_share_a_database() {
    let database = Database::postgres().await;
    let processes = [0, 1, 2].map(|_| Process::start(&database.url()));
    for (n, process) in processes.iter().enumerate() {
        assert_eq!(report_once(&client(), &process.base, n).await.unwrap().0, 201);
        let read = client().get(format!("{}/api/v2/environments/acme", process.base)).bearer_auth(READER);
        Response::from_request(read).await.expect(200);
    }
}

crate::service::on_both!(one_replica_at_a_time_does_a_task);

/// `.ci/postgres --platform` starts the servers.
mod platform {
    use super::*;

    /// Reloads a page until the standby has replayed a change.
    async fn reload_until(browser: &mut Browser<'_>, text: &str) {
        let reloading = async { while !browser.get("/ui/acme").await.text.contains(text) {} };
        tokio::time::timeout(Duration::from_mins(1), reloading).await.expect(text);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a pooler without prepared statements: .ci/postgres --platform"]
    async fn pooler_without_prepared_statements_is_rejected() {
        let pooler = std::env::var("SUPERCARGO_TEST_OLD_POOLER").expect("SUPERCARGO_TEST_OLD_POOLER");
        let database = Database::postgres().await;
        let (code, stderr) = run_to_failure(&database.url_at(&pooler), &[]);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("expected session mode, or PgBouncer 1.21 or later"), "{stderr}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a standby: .ci/postgres --platform"]
    async fn pages_are_read_from_the_standby_with_their_time() {
        let standby = std::env::var("SUPERCARGO_TEST_STANDBY").expect("SUPERCARGO_TEST_STANDBY");
        let database = Database::postgres().await;
        let clock = Clock::default();
        let database_read = Some(database.url_at(&standby));
        let options = Options { database_read, clock: clock.clone(), ..Options::default() };
        let service = TestService::start_with(database, options).await;
        service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
        let mut browser = Browser::signed_in(&service, READER).await;
        reload_until(&mut browser, "prod").await;

        let replay = |function: &str| {
            let (standby, sql) = (service.database.url_at(&standby), format!("SELECT {function}()"));
            async move {
                let mut connection = PgConnection::connect(&standby).await.unwrap();
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
        };
        let page = browser.get("/ui/acme").await.text;
        let as_of =
            |page: &str| page.split("As of ").nth(1).unwrap().split("</p>").next().unwrap().to_owned();
        replay("pg_wal_replay_pause").await;
        let before = as_of(&browser.get("/ui/acme").await.text);
        service.report(ADMIN, "later", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
        clock.set_back(Duration::from_hours(1));
        let late = browser.get("/ui/acme").await.text;
        // The API answers from the primary.
        let environments = service.read("/environments/acme").await;
        replay("pg_wal_replay_resume").await;
        assert!(page.contains("prod") && !late.contains("later"), "{late}");
        assert_eq!(as_of(&late), before);
        assert!(environments.to_string().contains("later"), "{environments}");
        reload_until(&mut browser, "later").await;
    }
}

/// It compares all rows of two tables with each other if it expects a single one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn planner_expects_all_rows_of_a_small_organization_beside_a_large_one() {
    let service = TestService::start(Database::postgres().await).await;
    for (token, organization) in [(ADMIN, "acme"), (STRANGER, "stranger")] {
        let path = format!("/environments/{organization}/prod/report/K8S?create=true");
        let request = service.request(Method::PUT, token, &path).header("Content-Type", "application/json");
        Response::from_request(request.body(report(&[]))).await.expect(201);
    }
    let rows = "environments e, generate_series(1, CASE organization WHEN 'acme' THEN 100 ELSE 10000 END) n";
    // In one transaction: the retention removes workloads without a pod.
    let inserts = [
        "workloads (organization, hash, digests, owners)
         SELECT organization, sha256('x'), '{}', '[]' FROM environments"
            .to_owned(),
        format!(
            "artifact_runs (organization, environment, fingerprint, first_snapshot, name, pods, namespaces, started_at)
             SELECT organization, id, sha256(n::text::bytea), 1, 'x', 1, '[]', 1 FROM {rows}"
        ),
        format!(
            "pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by, started_at)
             SELECT organization, gen_random_uuid(), id, 'x', n::text, 1, sha256('x'), 'x', 1 FROM {rows}"
        ),
        format!(
            "verdicts (organization, environment, fingerprint, from_at, compliance, is_allowed, reasons)
             SELECT organization, id, sha256(n::text::bytea), 1, 'COMPLIANT', FALSE, '[]' FROM {rows}"
        ),
    ];
    let inserts = inserts.map(|insert| format!("INSERT INTO {insert}"));
    service.database.execute(&inserts.join(";")).await;
    service.database.execute("ANALYZE").await;
    let id = "SELECT id::text FROM environments WHERE organization = 'acme'";
    let id = &service.database.rows(id).await[0];
    for table in ["artifact_runs", "pod_runs", "verdicts"] {
        let select = format!("SELECT 1 FROM {table} WHERE organization = 'acme' AND environment = '{id}'");
        let plan = service.database.rows(&format!("EXPLAIN {select}")).await.concat();
        let (_, rows) = plan.split_once("rows=").unwrap();
        let rows: u64 = rows.split(' ').next().unwrap().parse().unwrap();
        assert!((50..200).contains(&rows), "{table}: {plan}");
    }
}

/// A new database has no statistics: the planner expects a single row for an organization and a repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SUPERCARGO_TEST_DATABASE=postgres://…"]
async fn attestations_in_a_new_database_read_only_their_own_artifacts() {
    const ARTIFACTS: usize = 500;
    let service = TestService::start(Database::postgres().await).await;
    for table in ["attestations", "attested_artifacts", "claims", "latest_attestations", "provenance"] {
        let disable = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        service.database.execute(&disable).await;
    }
    // Processes of the server publish their counters when they end.
    let read = async || -> usize {
        let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        service.database.execute(end).await;
        let read = "SELECT SUM(idx_tup_read)::text FROM pg_stat_user_indexes WHERE relname IN ('claims', 'provenance')";
        service.database.rows(read).await[0].parse().unwrap()
    };
    let mut before = 0;
    for n in 0..4 {
        let artifacts = n * ARTIFACTS..(n + 1) * ARTIFACTS;
        let artifacts: Vec<_> = artifacts.map(|artifact| format!("{artifact:064x}")).collect();
        let data = json!({
            "attestation_name": "unit", "junit_results": [], "target_artifacts": artifacts,
            "repo_info": {"name": "acme/cart"},
        });
        service.attest(ADMIN, "cart", &format!("build-{n}"), form(&data)).await.expect(201);
        if n == 0 {
            before = read().await;
        }
    }
    let read = read().await - before;
    assert!((1..120 * ARTIFACTS).contains(&read), "{read}");
}
