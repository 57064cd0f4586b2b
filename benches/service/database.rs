//! Databases of the bench, with direct access to insert rows.

use std::time::{Duration, SystemTime};

use sqlx::postgres::PgRow;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow, SqliteSynchronous};
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _, SqlitePool};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use url::Url;

use super::figures::cpu_of;

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

/// Attestations to insert, as SQL expressions over the column `i` of `n`.
pub(super) struct Attestations<'a> {
    pub(super) organization: &'a str,
    pub(super) flow: &'a str,
    /// Identifiers of the trail and of the attestation.
    pub(super) trail: &'a str,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// Fingerprint of the attested artifact.
    pub(super) artifact: &'a str,
    /// Time in microseconds; must increase with `i`.
    pub(super) at: &'a str,
    pub(super) repository: &'a str,
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

    /// The plan of a statement, which is not executed.
    pub(super) fn explain(&self, sql: &str) -> Vec<String> {
        let explain = if self.is_sqlite() { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
        let sql = format!("{explain} {sql}");
        let lines: Result<Vec<String>, sqlx::Error> = self.runtime.block_on(async {
            let sql = AssertSqlSafe(sql.clone());
            match &self.pool {
                Pool::Sqlite { pool, .. } => {
                    sqlx::query(sql).map(|row: SqliteRow| row.get("detail")).fetch_all(pool).await
                }
                Pool::Postgres { pool, .. } => {
                    sqlx::query(sql).map(|row: PgRow| row.get(0)).fetch_all(pool).await
                }
            }
        });
        lines.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// CPU time in seconds of this database's server processes on this machine. 0 for SQLite, which runs in the service.
    pub(super) fn cpu(&self) -> f64 {
        const PROCESSES: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()";
        let Pool::Postgres { pool, .. } = &self.pool else { return 0.0 };
        let processes: Vec<i32> =
            self.runtime.block_on(sqlx::query_scalar(PROCESSES).fetch_all(pool)).unwrap();
        processes.iter().filter_map(|process| cpu_of(process.unsigned_abs(), "postgres")).sum()
    }

    /// Number of connections to PostgreSQL, without those of the bench.
    pub(super) fn connections(&self) -> i64 {
        let Pool::Postgres { pool, .. } = &self.pool else { return 0 };
        let all = self.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()");
        all - i64::from(pool.size())
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
        self.decoded(&self.hex(number, 64))
    }

    /// SQL expression of the bytes of hex digits.
    pub(super) fn decoded(&self, digits: &str) -> String {
        match self.pool {
            Pool::Sqlite { .. } => format!("unhex({digits})"),
            Pool::Postgres { .. } => format!("decode({digits}, 'hex')"),
        }
    }

    /// SQL expression of this many hex digits from a number.
    pub(super) fn hex(&self, number: &str, digits: usize) -> String {
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

/// SQL that inserts an attestation of one artifact for each row of `n`, defined by `numbers`. Attestations precede
/// their artifacts, because a trigger derives the latest attestations from both.
pub(super) fn insert_attestations(numbers: &str, attestations: &Attestations<'_>) -> String {
    let Attestations { organization, flow, trail, id, name, artifact, at, repository } = attestations;
    format!(
        "{numbers} INSERT INTO attestations (id, organization, flow, trail, name, kind, targets, created_at,
             reported_by, schema_version, is_compliant, results, description, origin_url, user_data,
             annotations, external_urls, repository)
         SELECT {id}, {organization}, {flow}, {trail}, {name}, 'junit', '[]', {at}, 'bench', 1, TRUE,
                '[{{\"name\":\"unit\",\"total\":120,\"failures\":0,\"errors\":0,\"skipped\":0}}]', '', '',
                '{{}}', '{{}}', '{{}}', {repository} FROM n ORDER BY i;
         {numbers} INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail)
         SELECT {organization}, {artifact}, {id}, {trail} FROM n ORDER BY i;"
    )
}

/// Inserts trails in twenty flows, with one attestation each.
pub(super) fn seed_trails(database: &Database, organization: &str, base: u64, count: u64) {
    let id = database.uuid(&format!("10000000 + {base} + i"));
    let now = database.micros_ago(Duration::from_hours(1));
    let flow = database.text("flow", "i % 20");
    let repository = database.uuid(&(base + 100).to_string());
    let all = database.numbers(0, count);
    database.run(&format!(
        "INSERT INTO repositories (id, organization, provider, name, created_at)
         VALUES ({repository}, '{organization}', 'github', 'acme/trails', {now});
         {few} INSERT INTO flows (organization, name, created_at)
         SELECT '{organization}', {flow}, {now} FROM n;
         {all} INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by)
         SELECT {id}, '{organization}', {flow}, {trail}, {now} + i * 1000, {now} + i * 1000, 'bench' FROM n;
         {attestations}",
        few = database.numbers(0, 20),
        trail = database.text("trail", "i"),
        attestations = insert_attestations(
            &all,
            &Attestations {
                organization: &format!("'{organization}'"),
                flow: &flow,
                trail: &id,
                id: &id,
                name: "'unit-tests'",
                artifact: &database.bytes("i"),
                at: &format!("{now} + i * 1000"),
                repository: &repository,
            },
        ),
    ));
    database.maintain();
}
