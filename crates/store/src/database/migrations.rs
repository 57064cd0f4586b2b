//! The migrations of both databases.
//!
//! `0001_schema.sql` is the whole schema of both databases; `postgres` has settings of tables. A released migration is
//! never edited.

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Error;
use crate::database::error::is_lock_timeout;

static SHARED: Migrator = sqlx::migrate!("./migrations");
/// Settings of tables that SQLite does not have.
static POSTGRES: Migrator = sqlx::migrate!("./migrations/postgres");

pub(crate) fn sqlite() -> &'static Migrator {
    &SHARED
}

/// Migrates PostgreSQL in one transaction. Its lock ends with it, also behind a pooler, which may give another connection to
/// each transaction. Waits for another process at most this long.
pub(crate) async fn migrate_postgres(connection: &mut PgConnection, wait: Duration) -> Result<(), Error> {
    // The key is arbitrary: other locks have two parts, or a hash.
    const TRY: &str = "SELECT pg_try_advisory_xact_lock(7281001)";
    const LOCK: &str = "SELECT pg_advisory_xact_lock(7281001)";
    let mut transaction = connection.begin().await?;
    let is_locked: bool = sqlx::query_scalar(TRY).fetch_one(&mut *transaction).await?;
    if !is_locked {
        tracing::info!("waiting up to {wait:?} for another process that migrates the database");
        let limit = |timeout: u128| AssertSqlSafe(format!("SET LOCAL lock_timeout = {timeout}"));
        sqlx::raw_sql(limit(wait.as_millis())).execute(&mut *transaction).await?;
        sqlx::query(LOCK)
            .execute(&mut *transaction)
            .await
            .map_err(|error| if is_lock_timeout(&error) { Error::Migrating(wait) } else { error.into() })?;
        sqlx::raw_sql(limit(0)).execute(&mut *transaction).await?;
    }
    let mut migrator = Migrator::with_migrations(SHARED.iter().chain(POSTGRES.iter()).cloned().collect());
    migrator.set_locking(false);
    migrator.run(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}
