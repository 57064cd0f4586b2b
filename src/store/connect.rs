//! Opens the database, runs migrations and hands out connections from its pools.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, PgConnection, PgPool, SqlitePool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::error::is_busy;
use super::transaction::{PostgresTransaction, SqliteTransaction};
use super::url::{DatabaseUrl, SqliteLocation};
use super::{Error, Transaction};

/// The migrations of both databases.
static SHARED: Migrator = sqlx::migrate!("./migrations");
/// Triggers, whose syntax differs.
static SQLITE: Migrator = sqlx::migrate!("./migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("./migrations/postgres");

/// The shared migrations and those of one database, in the order of their numbers.
fn migrations(own: &Migrator) -> Migrator {
    Migrator::with_migrations(SHARED.iter().chain(own.iter()).cloned().collect())
}

/// An open database.
#[derive(Clone)]
pub enum Store {
    /// SQLite, in a file or in memory.
    Sqlite(SqlitePools),
    /// PostgreSQL.
    Postgres(PgPools),
}

/// Separate pools: writers that wait for a lock must not starve readers, and neither may starve authentication.
#[derive(Clone)]
pub struct PgPools {
    /// For tokens and sessions.
    pub(super) authentication: PgPool,
    pub(super) readers: PgPool,
    pub(super) writers: PgPool,
}

/// SQLite allows one writer at a time. Writers and heartbeats of this process wait in the `write_queue`; only
/// other processes wait for the file lock.
#[derive(Clone)]
pub struct SqlitePools {
    /// For tokens and sessions.
    authentication: SqlitePool,
    readers: SqlitePool,
    writer: SqlitePool,
    /// For writes that may be lost on a power failure.
    heartbeats: SqlitePool,
    /// One permit, granted in the order of arrival: a connection that polls for the file lock would starve
    /// while writers take it one after the other.
    write_queue: Arc<Semaphore>,
    timeouts: Timeouts,
    file: Option<File>,
}

/// Identifies the opened file, to detect that it was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Timeouts of database operations, and the size of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// To get a connection. On SQLite, also for a writer in the write queue.
    pub connection: Duration,
    /// To execute a statement.
    pub statement: Duration,
    /// To get a lock. On SQLite, also for a heartbeat in the write queue.
    pub lock: Duration,
    /// Maximum number of connections per pool. PostgreSQL has one pool for reads and one for writes, and both databases
    /// have [`MAX_AUTHENTICATION_CONNECTIONS`] more.
    pub max_connections: u32,
}

/// Maximum number of connections for tokens and sessions. A look-up takes less than a millisecond.
pub const MAX_AUTHENTICATION_CONNECTIONS: u32 = 4;

/// Length of SQLite's log at which [`Store::checkpoint`] writes it back: SQLite's default for a checkpoint by a commit.
const CHECKPOINT_PAGES: i64 = 1_000;

/// Length of SQLite's log at which a commit writes it back, if there are too many writes for [`Store::checkpoint`].
const MAX_LOG_PAGES: &str = "16384";

/// A connection for tokens and sessions is tested before use after this idle time, since PostgreSQL may have restarted.
/// A test of each use would add a round trip to each request.
const MAX_IDLE_WITHOUT_TEST: Duration = Duration::from_secs(1);

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connection: Duration::from_secs(5),
            statement: Duration::from_secs(30),
            lock: Duration::from_secs(10),
            max_connections: 10,
        }
    }
}

impl Store {
    /// Opens a database and migrates it to this version's schema. A lock makes other processes wait that start at
    /// the same time.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if it cannot be opened, and [`Error::Newer`] if a newer version migrated it.
    pub async fn open(url: &DatabaseUrl, timeouts: Timeouts) -> Result<Self, Error> {
        match url {
            DatabaseUrl::Sqlite { options, location } => {
                Ok(Self::Sqlite(open_sqlite(options, *location, timeouts).await?))
            }
            DatabaseUrl::Postgres(options) => Ok(Self::Postgres(open_postgres(options, timeouts).await?)),
        }
    }

    /// Begins a read-only transaction on a consistent snapshot.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if there is no connection.
    pub async fn read(&self) -> Result<Transaction, Error> {
        Ok(match self {
            Self::Sqlite(pools) => {
                Transaction::Sqlite(SqliteTransaction::new(pools.readers()?.begin().await?, None))
            }
            Self::Postgres(pools) => Transaction::Postgres(PostgresTransaction::new(
                pools.readers.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
            )),
        })
    }

    /// Begins a write transaction. On SQLite it takes the write lock immediately: a read transaction that is upgraded
    /// later fails without waiting (<https://sqlite.org/lang_transaction.html>).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if there is no connection, and [`Error::Busy`] if other writes of this process take
    /// too long.
    pub async fn write(&self) -> Result<Transaction, Error> {
        Ok(match self {
            Self::Sqlite(pools) => {
                let permit = pools.write_permit(pools.timeouts.connection).await?;
                let transaction = pools.writer.begin_with("BEGIN IMMEDIATE").await?;
                Transaction::Sqlite(SqliteTransaction::new(transaction, Some(permit)))
            }
            Self::Postgres(pools) => {
                Transaction::Postgres(PostgresTransaction::new(pools.writers.begin().await?))
            }
        })
    }

    /// Checks that the database responds.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(pools) => sqlx::query("SELECT 1").execute(pools.readers()?).await.map(drop)?,
            Self::Postgres(pools) => sqlx::query("SELECT 1").execute(&pools.readers).await.map(drop)?,
        }
        Ok(())
    }

    /// The numbers of open and of idle connections.
    #[must_use]
    pub fn connections(&self) -> (u32, u32) {
        let (open, idle) = match self {
            Self::Sqlite(pools) => (pools.readers.size(), pools.readers.num_idle()),
            Self::Postgres(PgPools { authentication, readers, writers }) => (
                authentication.size() + readers.size() + writers.size(),
                authentication.num_idle() + readers.num_idle() + writers.num_idle(),
            ),
        };
        (open, u32::try_from(idle).unwrap_or(u32::MAX))
    }

    /// The size of the pool for reads.
    #[must_use]
    pub fn max_readers(&self) -> u32 {
        match self {
            Self::Sqlite(pools) => pools.readers.options().get_max_connections(),
            Self::Postgres(pools) => pools.readers.options().get_max_connections(),
        }
    }

    /// The size of the pool for writes.
    #[must_use]
    pub fn max_writers(&self) -> u32 {
        match self {
            Self::Sqlite(pools) => pools.writer.options().get_max_connections(),
            Self::Postgres(pools) => pools.writers.options().get_max_connections(),
        }
    }

    /// Whether all organizations wait for one writer.
    #[must_use]
    pub fn has_single_writer(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Writes the log of SQLite back into its file if it is long. Writers do not wait, as they would for the checkpoint of a
    /// commit (<https://sqlite.org/wal.html>, "Application-Initiated Checkpoints").
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if the file cannot be written.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        let Self::Sqlite(pools) = self else { return Ok(()) };
        let readers = pools.readers()?;
        let (_, pages, done): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(NOOP)").fetch_one(readers).await?;
        if pages - done >= CHECKPOINT_PAGES {
            sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(readers).await?;
        }
        Ok(())
    }

    /// Waits for running transactions, then closes all connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(pools) => {
                pools.authentication.close().await;
                pools.readers.close().await;
                pools.heartbeats.close().await;
                // Last: closing the last connection writes the log back into the file.
                pools.writer.close().await;
            }
            Self::Postgres(pools) => {
                pools.authentication.close().await;
                pools.readers.close().await;
                pools.writers.close().await;
            }
        }
    }
}

impl SqlitePools {
    pub(super) fn authentication(&self) -> Result<&SqlitePool, Error> {
        self.check_file()?;
        Ok(&self.authentication)
    }

    pub(super) fn readers(&self) -> Result<&SqlitePool, Error> {
        self.check_file()?;
        Ok(&self.readers)
    }

    /// The connection for heartbeats, and the permit to write with it.
    pub(super) async fn heartbeats(&self) -> Result<(&SqlitePool, OwnedSemaphorePermit), Error> {
        self.check_file()?;
        Ok((&self.heartbeats, self.write_permit(self.timeouts.lock).await?))
    }

    /// Waits in the write queue.
    async fn write_permit(&self, wait: Duration) -> Result<OwnedSemaphorePermit, Error> {
        let permit = timeout(wait, Arc::clone(&self.write_queue).acquire_owned()).await;
        permit
            .ok()
            .and_then(Result::ok)
            .ok_or(Error::Busy("the database has reached its limit of concurrent writes"))
    }

    /// Checks that the file was not removed or replaced: writes to a removed file are lost when this process ends.
    fn check_file(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) if File::at(&file.path).as_ref() != Some(file) => {
                let moved =
                    std::io::Error::other("database file removed or replaced: restore it, or restart");
                Err(Error::Unavailable(sqlx::Error::Io(moved)))
            }
            _ => Ok(()),
        }
    }
}

impl File {
    fn at(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }
}

async fn open_sqlite(
    options: &SqliteConnectOptions,
    location: SqliteLocation,
    timeouts: Timeouts,
) -> Result<SqlitePools, Error> {
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(timeouts.connection)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false);
    let options = options
        .clone()
        .foreign_keys(true)
        .busy_timeout(timeouts.lock)
        .pragma("journal_size_limit", "67108864")
        .pragma("wal_autocheckpoint", MAX_LOG_PAGES)
        // A container may have no writable folder but the database's.
        .pragma("temp_store", "memory");
    let write_queue = Arc::new(Semaphore::new(1));
    let single = |options: SqliteConnectOptions| pool.clone().max_connections(1).connect_with(options);
    if location == SqliteLocation::Memory {
        // Each connection to an in-memory database opens a new database.
        let only = single(options).await?;
        migrate_sqlite(&only, "BEGIN IMMEDIATE").await?;
        return Ok(SqlitePools {
            authentication: only.clone(),
            readers: only.clone(),
            writer: only.clone(),
            heartbeats: only,
            write_queue,
            timeouts,
            file: None,
        });
    }
    if location == SqliteLocation::File {
        create_private(options.get_filename());
    }
    let durable = options.clone().synchronous(SqliteSynchronous::Full);
    let durable = match location {
        SqliteLocation::ReadOnlyFile => durable,
        _ => durable.journal_mode(SqliteJournalMode::Wal),
    };
    // On a full disk SQLite rolls back by itself (<https://sqlite.org/lang_transaction.html>, "Response To Errors
    // Within A Transaction"), and sqlx considers the transaction open for ever. Closes such a connection; the next
    // write opens another. The ping waits for a rollback in progress.
    let writers = pool.clone().max_connections(1).after_release(|connection, _| {
        Box::pin(async move {
            connection.ping().await?;
            Ok(!connection.is_in_transaction())
        })
    });
    // Retries: SQLite does not wait for another process that enables the log at the same time
    // (<https://sqlite.org/wal.html>, "Sometimes Queries Return SQLITE_BUSY In WAL Mode").
    let start = Instant::now();
    let writer = loop {
        match writers.clone().connect_with(durable.clone()).await {
            Err(error) if is_busy(&error) && start.elapsed() < timeouts.lock => {
                sleep(Duration::from_millis(20)).await;
            }
            opened => break opened?,
        }
    };
    let begin = if location == SqliteLocation::ReadOnlyFile { "BEGIN" } else { "BEGIN IMMEDIATE" };
    migrate_sqlite(&writer, begin).await?;
    // Later connections must not create a file that was removed.
    let options = options.create_if_missing(false);
    writer.set_connect_options(durable.create_if_missing(false));
    let heartbeats = single(options.clone().synchronous(SqliteSynchronous::Normal)).await?;
    let file = File::at(options.get_filename());
    let pool = pool.min_connections(1);
    let options = options.pragma("query_only", "ON");
    let authentication = pool.clone().max_connections(MAX_AUTHENTICATION_CONNECTIONS);
    let authentication = authentication.connect_with(options.clone()).await?;
    let readers = pool.max_connections(timeouts.max_connections).connect_with(options).await?;
    Ok(SqlitePools { authentication, readers, writer, heartbeats, write_queue, timeouts, file })
}

/// Creates a file with permissions for its owner only; SQLite's log inherits them. Ignores errors: opening the
/// file reports them.
fn create_private(path: &Path) {
    let _ = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
}

async fn migrate_sqlite(pool: &SqlitePool, begin: &'static str) -> Result<(), Error> {
    let mut transaction = pool.begin_with(begin).await?;
    migrations(&SQLITE).run(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

async fn open_postgres(options: &PgConnectOptions, timeouts: Timeouts) -> Result<PgPools, Error> {
    let milliseconds = |duration: Duration| duration.as_millis().to_string();
    let pool =
        PgPoolOptions::new().acquire_timeout(timeouts.connection).max_connections(timeouts.max_connections);
    // Migrates without a statement timeout, under sqlx's advisory lock. Connects without a pool, which would retry
    // and report a timeout instead of the cause.
    let connecting = timeout(timeouts.connection, PgConnection::connect_with(options));
    let mut migrating = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    migrations(&POSTGRES).run(&mut migrating).await?;
    migrating.close().await?;
    let options = options.clone().options([
        ("statement_timeout", milliseconds(timeouts.statement)),
        ("lock_timeout", milliseconds(timeouts.lock)),
        ("idle_in_transaction_session_timeout", milliseconds(2 * timeouts.statement)),
    ]);
    let authentication = pool
        .clone()
        .max_connections(MAX_AUTHENTICATION_CONNECTIONS)
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for > MAX_IDLE_WITHOUT_TEST {
                    connection.ping().await?;
                }
                Ok(true)
            })
        });
    let authentication = authentication.connect_with(options.clone()).await?;
    let readers = pool.clone().connect_with(options.clone()).await?;
    let writers = pool.connect_with(options).await?;
    Ok(PgPools { authentication, readers, writers })
}
