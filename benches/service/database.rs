//! The database beside the service, to fill it.

use std::time::{Duration, SystemTime};

use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

/// The database beside the service, to fill it.
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

    /// What the database does by itself some time after many rows were written.
    pub(super) async fn settle(&self) {
        match self {
            Self::Sqlite(_) => self.run("PRAGMA wal_checkpoint(TRUNCATE)").await,
            Self::Postgres(_) => self.run("VACUUM ANALYZE").await,
        }
    }

    /// A UUID from a number.
    pub(super) fn uuid(&self, number: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("unhex(printf('%032x', {number}))"),
            Self::Postgres(_) => format!("lpad(to_hex({number}), 32, '0')::uuid"),
        }
    }

    /// Thirty-two bytes from a number.
    pub(super) fn bytes(&self, number: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("unhex(printf('%064x', {number}))"),
            Self::Postgres(_) => format!("decode(lpad(to_hex({number}), 64, '0'), 'hex')"),
        }
    }

    /// A name from a number.
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
