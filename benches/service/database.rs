//! Databases of the bench, with direct access to insert rows.

use std::time::{Duration, SystemTime};

use nix::unistd::Pid;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, SqlitePool};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use url::Url;

use super::cluster::{FLOW, NAME};
use super::process::cpu;

/// SQLite, or the PostgreSQL server at this URL.
pub(super) enum Engine {
    Sqlite,
    Postgres(Url),
}

/// A database of its own, removed on drop.
pub(super) struct Database {
    pub(super) url: String,
    runtime: Runtime,
    pool: Pool,
}

enum Pool {
    Sqlite { pool: SqlitePool, _folder: TempDir },
    Postgres { pool: PgPool, server: Url, name: String },
}

impl Engine {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// Creates an empty database.
    pub(super) fn create(&self) -> Database {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (url, pool) = runtime.block_on(async {
            match self {
                Self::Sqlite => {
                    let folder = tempfile::tempdir().unwrap();
                    let file = folder.path().join("bench.db");
                    let options = SqliteConnectOptions::new()
                        .filename(&file)
                        .busy_timeout(Duration::from_mins(1))
                        .synchronous(SqliteSynchronous::Off);
                    let pool = SqlitePool::connect_lazy_with(options);
                    (format!("sqlite:{}", file.display()), Pool::Sqlite { pool, _folder: folder })
                }
                Self::Postgres(server) => {
                    let name = format!("supercargo_bench_{}", Uuid::now_v7().simple());
                    run_on_server(server, &format!("CREATE DATABASE {name}")).await.unwrap();
                    let mut url = server.clone();
                    url.set_path(&name);
                    let pool = PgPool::connect(url.as_str()).await.unwrap();
                    (url.to_string(), Pool::Postgres { pool, server: server.clone(), name })
                }
            }
        });
        Database { url, runtime, pool }
    }
}

async fn run_on_server(server: &Url, sql: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(server.as_str()).await?;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.map(drop)
}

impl Drop for Database {
    fn drop(&mut self) {
        let Pool::Postgres { server, name, .. } = &self.pool else { return };
        let remove = format!("DROP DATABASE {name} WITH (FORCE)");
        if let Err(error) = self.runtime.block_on(run_on_server(server, &remove)) {
            println!("failed to remove the database {name}: {error}");
        }
    }
}

impl Database {
    pub(super) fn is_sqlite(&self) -> bool {
        matches!(self.pool, Pool::Sqlite { .. })
    }

    pub(super) fn run(&self, sql: &str) {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let done = self.runtime.block_on(async {
            match &self.pool {
                Pool::Sqlite { pool, .. } => query.execute(pool).await.map(drop),
                Pool::Postgres { pool, .. } => query.execute(pool).await.map(drop),
            }
        });
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Result of a query for one number.
    pub(super) fn number(&self, sql: &str) -> i64 {
        let number = self.runtime.block_on(async {
            let sql = AssertSqlSafe(sql.to_owned());
            match &self.pool {
                Pool::Sqlite { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await,
                Pool::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await,
            }
        });
        number.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// CPU time in seconds of this database's server processes on this machine. 0 for SQLite, which runs in the service.
    pub(super) fn cpu(&self) -> f64 {
        const PROCESSES: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()";
        let Pool::Postgres { pool, .. } = &self.pool else { return 0.0 };
        let processes: Vec<i32> =
            self.runtime.block_on(sqlx::query_scalar(PROCESSES).fetch_all(pool)).unwrap();
        processes
            .into_iter()
            .filter_map(|process| cpu(Pid::from_raw(process)))
            .map(|cpu| cpu.as_secs_f64())
            .sum()
    }

    /// Runs the maintenance that the database would do later, after many inserts.
    pub(super) fn maintain(&self) {
        match self.pool {
            Pool::Sqlite { .. } => self.run("PRAGMA wal_checkpoint(TRUNCATE)"),
            Pool::Postgres { .. } => self.run("VACUUM ANALYZE"),
        }
    }

    /// Defines the table `n` with a column `i` of the numbers from `from`, inclusive, to `to`, exclusive.
    pub(super) fn numbers(&self, from: u64, to: u64) -> String {
        match self.pool {
            Pool::Sqlite { .. } => format!(
                "WITH RECURSIVE n(i) AS (SELECT {from} WHERE {from} < {to} UNION ALL SELECT i + 1 FROM n
                 WHERE i < {to} - 1)"
            ),
            Pool::Postgres { .. } => {
                format!("WITH n(i) AS (SELECT generate_series({from}::bigint, {to}::bigint - 1))")
            }
        }
    }

    /// SQL expression of a UUID from a number.
    pub(super) fn uuid(&self, number: &str) -> String {
        match self.pool {
            Pool::Sqlite { .. } => format!("unhex({})", self.hex(number, 32)),
            Pool::Postgres { .. } => format!("{}::uuid", self.hex(number, 32)),
        }
    }

    /// SQL expression of 32 bytes from a number.
    pub(super) fn bytes(&self, number: &str) -> String {
        let digits = self.hex(number, 64);
        match self.pool {
            Pool::Sqlite { .. } => format!("unhex({digits})"),
            Pool::Postgres { .. } => format!("decode({digits}, 'hex')"),
        }
    }

    fn hex(&self, number: &str, digits: usize) -> String {
        match self.pool {
            Pool::Sqlite { .. } => format!("printf('%0{digits}x', {number})"),
            Pool::Postgres { .. } => format!("lpad(to_hex({number}), {digits}, '0')"),
        }
    }

    /// SQL expression of a name from a number.
    pub(super) fn text(&self, prefix: &str, number: &str) -> String {
        match self.pool {
            Pool::Sqlite { .. } => format!("printf('{prefix}-%07d', {number})"),
            Pool::Postgres { .. } => format!("'{prefix}-' || lpad(({number})::text, 7, '0')"),
        }
    }

    pub(super) fn micros_ago(&self, ago: Duration) -> String {
        let since = (SystemTime::now() - ago).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        match self.pool {
            Pool::Sqlite { .. } => since.as_micros().to_string(),
            Pool::Postgres { .. } => format!("{}::bigint", since.as_micros()),
        }
    }
}

/// Inserts trails that report one artifact and attest it. `artifact` is an SQL expression of the artifact's number over
/// the column `i` of the trail's number from 0 on. `base` distinguishes the rows from those of other calls.
pub(super) fn seed_trails(database: &Database, organization: &str, base: u64, count: u64, artifact: &str) {
    let (id, repository) = (database.uuid(&format!("{base} + i")), database.uuid(&base.to_string()));
    let (numbers, now) = (database.numbers(0, count), database.micros_ago(Duration::from_hours(1)));
    let (trail, artifact) = (database.text(&format!("seed-{base}"), "i"), database.bytes(artifact));
    database.run(&format!(
        "INSERT INTO repositories (organization, id, provider, name, is_url_of_owner, flow, reported_by, created_at)
         VALUES ('{organization}', {repository}, 'github', 'acme/seed-{base}', FALSE, '{FLOW}', 'bench', {now});
         INSERT INTO flows (organization, name, created_at) VALUES ('{organization}', '{FLOW}', {now})
         ON CONFLICT DO NOTHING;
         {numbers} INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by)
         SELECT {id}, '{organization}', '{FLOW}', {trail}, {now} + i, {now} + i, 'bench' FROM n;
         {numbers} INSERT INTO attestations (id, organization, flow, trail, name, kind, targets, created_at,
             reported_by, schema_version, has_verdict, is_compliant, results, description, origin_url, user_data,
             annotations, external_urls, other_fields, repository)
         SELECT {id}, '{organization}', '{FLOW}', {id}, '{NAME}', 'junit', '[]', {now} + i, 'bench', 1, TRUE, TRUE,
                '[{{\"name\":\"unit\",\"total\":120,\"failures\":0,\"errors\":0,\"skipped\":0}}]', '', '',
                '{{}}', '{{}}', '{{}}', '{{}}', {repository} FROM n ORDER BY i;
         {numbers} INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail)
         SELECT '{organization}', {artifact}, {id}, {id} FROM n ORDER BY i;
         {numbers} INSERT INTO latest_attestations (organization, fingerprint, flow, name, attestation, created_at,
             is_compliant, kind, trail)
         SELECT '{organization}', {artifact}, '{FLOW}', '{NAME}', {id}, {now} + i, TRUE, 'junit', {id}
         FROM n WHERE TRUE ORDER BY i DESC ON CONFLICT DO NOTHING;
         {numbers} INSERT INTO reported_artifacts (id, organization, flow, trail, fingerprint, name, created_at,
             reported_by, content)
         SELECT {id}, '{organization}', '{FLOW}', {id}, {artifact}, 'image', {now} + i, 'bench', '{{}}' FROM n;
         {numbers} INSERT INTO flow_artifacts (organization, flow, fingerprint, created_at, modified_at, trail, report)
         SELECT '{organization}', '{FLOW}', {artifact}, {now} + i, {now} + i, {id}, {id}
         FROM n WHERE TRUE ORDER BY i DESC ON CONFLICT DO NOTHING;"
    ));
    database.maintain();
}

/// Inserts pods of an environment that have ended, and a tenth as many artifacts, verdicts, snapshots and events.
pub(super) fn seed_ended_pods(database: &Database, organization: &str, environment: &str, count: u64) {
    let past = database.micros_ago(Duration::from_hours(24));
    let (id, hash) = (database.uuid("1000000000 + i"), database.bytes("1000000000 + i"));
    let environment = format!(
        "(SELECT id FROM environments WHERE organization = '{organization}' AND name = '{environment}')"
    );
    database.run(&format!(
        "{all} INSERT INTO workloads (organization, hash, digests, owners)
         SELECT '{organization}', {hash}, '{{}}', '[]' FROM n;
         {all} INSERT INTO pod_runs (organization, id, environment, namespace, pod, created_at, workload, reported_by,
                                     started_at, ended_at)
         SELECT '{organization}', {id}, {environment}, 'team-0001', {pod}, i, {hash}, 'bench', {past} - i - 1, {past} - i
         FROM n;
         {some} INSERT INTO snapshots (organization, environment, snapshot, received_at, reported_by, report_hash,
                                       confirmed_at, superseded_at)
         SELECT '{organization}', {environment}, -i, {past} - i - 1, 'bench', {hash}, {past} - i, {past} - i FROM n;
         {some} INSERT INTO artifact_runs (organization, environment, fingerprint, first_snapshot, last_snapshot, name,
                                           pods, namespaces, started_at, ended_at)
         SELECT '{organization}', {environment}, {hash}, -i, -i, 'registry.example.com/acme/image:1.' || i, 1, '[]',
                {past} - i - 1, {past} - i FROM n;
         {some} INSERT INTO verdicts (organization, environment, fingerprint, from_at, until_at, compliance, is_allowed,
                                      reasons)
         SELECT '{organization}', {environment}, {hash}, {past} - i - 1, {past} - i, 'COMPLIANT', FALSE, '[]' FROM n;
         {some} INSERT INTO events (id, organization, environment, kind, occurred_at, content)
         SELECT {id}, '{organization}', {environment}, 'ON_STARTED_ARTIFACT', {past} - i, '{{}}' FROM n;",
        all = database.numbers(1, count + 1),
        some = database.numbers(1, count / 10 + 1),
        pod = database.text("pod", "i"),
    ));
    database.maintain();
}
