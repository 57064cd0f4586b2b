//! Connections to PostgreSQL, directly or through a pooler.
//!
//! No state of a session is used, since a pooler in transaction mode may give another connection to each transaction:
//! timeouts and locks are those of a transaction. Only tokens and sessions are read by single statements.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use tokio::time::timeout;

use crate::Error;
use crate::database::error::is_lost_connection;
use crate::database::migrations;
use crate::database::timeouts::{DatabaseTimeouts, MAX_AUTHENTICATION_CONNECTIONS};
use crate::database::transaction::PostgresTransaction;
use runtime::files::{BlockingCall, read_regular};

/// Separate pools: writers that wait for a lock must not starve readers, and neither may starve authentication.
#[derive(Clone)]
pub struct PgPools {
    /// For tokens and sessions.
    pub(crate) authentication: PgPool,
    pub(crate) readers: PgPool,
    pub(crate) writers: PgPool,
    begin_read: Arc<str>,
    begin_write: Arc<str>,
    password_file: Option<Arc<PasswordFile>>,
    timeouts: DatabaseTimeouts,
}

/// A connection for tokens and sessions is tested before use after this idle time, since PostgreSQL may have restarted.
/// A test of each use would add a round trip to each request.
const MAX_IDLE_WITHOUT_TEST: Duration = Duration::from_secs(1);

const MAX_PASSWORD_BYTES: u64 = 4096;

/// Timeout for reading a password file, such as on a mount that hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The statements that begin a transaction with its timeouts, in one round trip.
fn begin(mode: &str, timeouts: DatabaseTimeouts) -> Arc<str> {
    let [statement, lock] = [timeouts.statement, timeouts.lock].map(|timeout| timeout.as_millis());
    let idle = 2 * statement;
    Arc::from(format!(
        "BEGIN{mode}; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}; \
         SET LOCAL idle_in_transaction_session_timeout = {idle}"
    ))
}

/// A file with the password.
struct PasswordFile {
    path: PathBuf,
    reading: BlockingCall<io::Result<String>>,
}

impl PasswordFile {
    /// The password, without white space around it.
    async fn read(&self) -> Result<String, Error> {
        let path = self.path.clone();
        let read = move || {
            let password = String::from_utf8(read_regular(MAX_PASSWORD_BYTES, &path)?);
            Ok(password.map_err(io::Error::other)?.trim().to_owned())
        };
        let read = self.reading.run(READ_TIMEOUT, read).await;
        read.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| Error::Password(self.path.clone(), error))
    }
}

impl PgPools {
    /// Connects when a connection is first used.
    pub(crate) async fn new(
        options: &PgConnectOptions,
        password_file: Option<&Path>,
        timeouts: DatabaseTimeouts,
    ) -> Result<Self, Error> {
        // PgBouncer rejects this parameter by default. No query returns a number of this type as text.
        let options = options.clone().extra_float_digits(None);
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
        let pools = Self {
            authentication: authentication.connect_lazy_with(options.clone()),
            readers: pool.clone().connect_lazy_with(options.clone()),
            writers: pool.connect_lazy_with(options),
            begin_read: begin(" ISOLATION LEVEL REPEATABLE READ READ ONLY", timeouts),
            begin_write: begin("", timeouts),
            password_file: password_file.map(|path| {
                Arc::new(PasswordFile { path: path.to_owned(), reading: BlockingCall::default() })
            }),
            timeouts,
        };
        pools.reread_password().await?;
        Ok(pools)
    }

    /// Migrates the database without a statement timeout. Connects without a pool, which would retry and report a timeout
    /// instead of the cause.
    pub(crate) async fn migrate(&self) -> Result<(), Error> {
        let options = self.writers.connect_options();
        let connecting = timeout(self.timeouts.connection, PgConnection::connect_with(&options));
        let mut migrating = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
        migrations::migrate_postgres(&mut migrating, self.timeouts.migration).await?;
        // Fails if a pooler that does not support prepared statements gives it the connection of the migration.
        sqlx::query("SELECT 1").execute(&self.authentication).await?;
        migrating.close().await?;
        Ok(())
    }

    /// Uses the password in the file for new connections.
    pub(crate) async fn reread_password(&self) -> Result<(), Error> {
        let Some(file) = &self.password_file else { return Ok(()) };
        let password = file.read().await?;
        for pool in self.all() {
            let options = pool.connect_options();
            pool.set_connect_options(PgConnectOptions::clone(&options).password(&password));
        }
        Ok(())
    }

    pub(crate) async fn read(&self) -> Result<PostgresTransaction, Error> {
        self.begin(&self.readers, &self.begin_read).await
    }

    pub(crate) async fn write(&self) -> Result<PostgresTransaction, Error> {
        self.begin(&self.writers, &self.begin_write).await
    }

    /// Begins a transaction, in a task of its own: a future that is dropped while a transaction begins would return its
    /// connection to the pool within the transaction. A pooler may wait for a connection of its own.
    async fn begin(&self, pool: &PgPool, begin: &Arc<str>) -> Result<PostgresTransaction, Error> {
        let (pool, begin) = (pool.clone(), Arc::clone(begin));
        let task = tokio::spawn(async move {
            // Instead of a test before each use. Nothing has happened yet, so that a lost connection is replaced.
            for _ in 0..pool.size() {
                match pool.begin_with(AssertSqlSafe(Arc::clone(&begin))).await {
                    Err(error) if is_lost_connection(&error) => {}
                    result => return result,
                }
            }
            pool.begin_with(AssertSqlSafe(begin)).await
        });
        let joined = timeout(self.timeouts.connection, task).await.map_err(|_| sqlx::Error::PoolTimedOut)?;
        Ok(PostgresTransaction::new(joined.map_err(|_| sqlx::Error::WorkerCrashed)??, None))
    }

    /// Waits for a statement that reads a token or a session. A transaction with timeouts would add a round trip to each
    /// request; a result that comes late is not needed.
    pub(crate) async fn authenticate<T>(
        &self,
        reading: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<T, Error> {
        let read = timeout(self.timeouts.lock, reading).await;
        Ok(read.map_err(|elapsed| sqlx::Error::Io(elapsed.into()))??)
    }

    pub(crate) fn all(&self) -> [&PgPool; 3] {
        [&self.authentication, &self.readers, &self.writers]
    }
}
