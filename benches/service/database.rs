//! Direct access to the service's database, to insert rows.

use std::time::{Duration, SystemTime};

use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

pub(super) enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Database {
    pub(super) fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    pub(super) async fn run(&self, sql: &str) {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let done = match self {
            Self::Sqlite(pool) => query.execute(pool).await.map(drop),
            Self::Postgres(pool) => query.execute(pool).await.map(drop),
        };
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Runs the maintenance that the database would do later, after many inserts.
    pub(super) async fn maintain(&self) {
        match self {
            Self::Sqlite(_) => self.run("PRAGMA wal_checkpoint(TRUNCATE)").await,
            Self::Postgres(_) => self.run("VACUUM ANALYZE").await,
        }
    }

    /// SQL expression of a UUID from a number.
    pub(super) fn uuid(&self, number: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("unhex(printf('%032x', {number}))"),
            Self::Postgres(_) => format!("lpad(to_hex({number}), 32, '0')::uuid"),
        }
    }

    /// SQL expression of 32 bytes from a number.
    pub(super) fn bytes(&self, number: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("unhex(printf('%064x', {number}))"),
            Self::Postgres(_) => format!("decode(lpad(to_hex({number}), 64, '0'), 'hex')"),
        }
    }

    /// SQL expression of a name from a number.
    pub(super) fn text(&self, prefix: &str, number: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("printf('{prefix}-%07d', {number})"),
            Self::Postgres(_) => format!("'{prefix}-' || lpad(({number})::text, 7, '0')"),
        }
    }

    pub(super) fn micros_ago(&self, ago: Duration) -> String {
        let since = (SystemTime::now() - ago).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        match self {
            Self::Sqlite(_) => since.as_micros().to_string(),
            Self::Postgres(_) => format!("{}::bigint", since.as_micros()),
        }
    }
}

/// Inserts trails in twenty flows, with one attestation each.
pub(super) async fn seed_trails(database: &Database, organization: &str, base: u64, count: u64) {
    let id = database.uuid(&format!("10000000 + {base} + i"));
    let now = database.micros_ago(Duration::from_hours(1));
    let numbers = |end: u64| {
        format!("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {end} - 1)")
    };
    let flow = database.text("flow", "i % 20");
    let repository = database.uuid(&(base + 100).to_string());
    database
        .run(&format!(
            "INSERT INTO repositories (id, organization, provider, name, created_at)
             VALUES ({repository}, '{organization}', 'github', 'acme/trails', {now});
             {few} INSERT INTO flows (organization, name, created_at)
             SELECT '{organization}', {flow}, {now} FROM n;
             {all} INSERT INTO trails (id, organization, flow, name, created_at, last_modified_at, created_by)
             SELECT {id}, '{organization}', {flow}, {trail}, {now} + i * 1000, {now} + i * 1000, 'bench' FROM n;
             {all} INSERT INTO attestations (id, organization, flow, trail, name, kind, targets, created_at,
                 reported_by, schema_version, is_compliant, results, description, origin_url, user_data,
                 annotations, external_urls, repository)
             SELECT {id}, '{organization}', {flow}, {id}, 'unit-tests', 'junit', '[]', {now} + i * 1000, 'bench', 1,
                    TRUE, '[{{\"name\":\"unit\",\"total\":120,\"failures\":0,\"errors\":0,\"skipped\":0}}]', '', '',
                    '{{}}', '{{}}', '{{}}', {repository} FROM n;
             {all} INSERT INTO attested_artifacts (organization, fingerprint, attestation, trail)
             SELECT '{organization}', {hash}, {id}, {id} FROM n;",
            few = numbers(20),
            all = numbers(count),
            trail = database.text("trail", "i"),
            hash = database.bytes("i"),
        ))
        .await;
    database.maintain().await;
}
