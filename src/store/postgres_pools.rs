//! Connections to PostgreSQL, directly or through a pooler.
//!
//! No state of a session is used, since a pooler in transaction mode may give another connection to each transaction:
//! timeouts and locks are those of a transaction.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use tokio::time::timeout;

use super::error::is_lost_connection;
use super::timeouts::{MAX_AUTHENTICATION_CONNECTIONS, Timeouts};
use super::transaction::PostgresTransaction;
use super::{Error, migrations};

/// Separate pools: writers that wait for a lock must not starve readers, and neither may starve authentication.
#[derive(Clone)]
pub struct PgPools {
    /// For tokens and sessions.
    pub(super) authentication: PgPool,
    pub(super) readers: PgPool,
    pub(super) writers: PgPool,
    begin_read: Arc<str>,
    begin_write: Arc<str>,
    timeouts: Timeouts,
}

/// A connection for tokens and sessions is tested before use after this idle time, since PostgreSQL may have restarted.
/// A test of each use would add a round trip to each request.
const MAX_IDLE_WITHOUT_TEST: Duration = Duration::from_secs(1);

/// The statements that begin a transaction with its timeouts, in one round trip.
fn begin(mode: &str, timeouts: Timeouts) -> Arc<str> {
    let [statement, lock] = [timeouts.statement, timeouts.lock].map(|timeout| timeout.as_millis());
    let idle = 2 * statement;
    Arc::from(format!(
        "BEGIN{mode}; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}; \
         SET LOCAL idle_in_transaction_session_timeout = {idle}"
    ))
}

/// Opens and migrates a database.
pub(super) async fn open(options: &PgConnectOptions, timeouts: Timeouts) -> Result<PgPools, Error> {
    // PgBouncer rejects this parameter by default. No query returns a number of this type as text.
    let options = options.clone().extra_float_digits(None);
    // Migrates without a statement timeout. Connects without a pool, which would retry and report a timeout instead of the
    // cause.
    let connecting = timeout(timeouts.connection, PgConnection::connect_with(&options));
    let mut migrating = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    migrations::migrate_postgres(&mut migrating, timeouts.migration).await?;
    let pool = PgPoolOptions::new()
        .acquire_timeout(timeouts.connection)
        .max_connections(timeouts.max_connections)
        .test_before_acquire(false);
    let authentication = pool.clone().max_connections(MAX_AUTHENTICATION_CONNECTIONS).before_acquire(
        |connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for > MAX_IDLE_WITHOUT_TEST {
                    connection.ping().await?;
                }
                Ok(true)
            })
        },
    );
    let authentication = authentication.connect_with(options.clone()).await?;
    // Fails if a pooler that does not support prepared statements gives it the connection of the migration.
    sqlx::query("SELECT 1").execute(&authentication).await?;
    migrating.close().await?;
    let readers = pool.clone().connect_with(options.clone()).await?;
    let writers = pool.connect_with(options).await?;
    let begin_read = begin(" ISOLATION LEVEL REPEATABLE READ READ ONLY", timeouts);
    Ok(PgPools { authentication, readers, writers, begin_read, begin_write: begin("", timeouts), timeouts })
}

impl PgPools {
    pub(super) async fn read(&self) -> Result<PostgresTransaction, Error> {
        self.begin(&self.readers, &self.begin_read).await
    }

    pub(super) async fn write(&self) -> Result<PostgresTransaction, Error> {
        self.begin(&self.writers, &self.begin_write).await
    }

    /// Begins a transaction, in a task of its own: a future that is dropped while a transaction begins would return its
    /// connection to the pool within the transaction. A pooler may wait for a connection of its own.
    async fn begin(&self, pool: &PgPool, begin: &Arc<str>) -> Result<PostgresTransaction, Error> {
        let (pool, begin) = (pool.clone(), Arc::clone(begin));
        let beginning = tokio::spawn(async move {
            // Instead of a test before each use. Nothing has happened yet, so that a lost connection is replaced.
            for _ in 0..pool.size() {
                match pool.begin_with(AssertSqlSafe(Arc::clone(&begin))).await {
                    Err(error) if is_lost_connection(&error) => {}
                    begun => return begun,
                }
            }
            pool.begin_with(AssertSqlSafe(begin)).await
        });
        let begun =
            timeout(self.timeouts.connection, beginning).await.map_err(|_| sqlx::Error::PoolTimedOut)?;
        Ok(PostgresTransaction::new(begun.map_err(|_| sqlx::Error::WorkerCrashed)??))
    }

    /// Waits for a statement that reads a token or a session. A transaction with timeouts would add a round trip to each
    /// request; a result that comes late is not needed.
    pub(super) async fn authenticate<T>(
        &self,
        reading: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<T, Error> {
        Ok(timeout(self.timeouts.lock, reading).await.map_err(|_| sqlx::Error::PoolTimedOut)??)
    }

    pub(super) fn all(&self) -> [&PgPool; 3] {
        [&self.authentication, &self.readers, &self.writers]
    }
}
