//! Connections to SQLite, and the queue of its writers.
//!
//! Only heartbeats are written with `synchronous=NORMAL`: a power failure can revert the time of the last report, and
//! nothing else.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, SqlitePool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::Error;
use crate::database::error::is_busy;
use crate::database::migrations;
use crate::database::timeouts::{DatabaseTimeouts, MAX_AUTHENTICATION_CONNECTIONS};
use crate::database::transaction::SqliteTransaction;
use crate::database::url::SqliteLocation;

/// SQLite allows one writer at a time. Writers and heartbeats of this process wait in the `write_queue`; only
/// other processes wait for the file lock.
#[derive(Clone)]
pub struct SqlitePools {
    /// For tokens and sessions.
    authentication: SqlitePool,
    pub(crate) readers: SqlitePool,
    pub(crate) writer: SqlitePool,
    /// For writes that may be lost on a power failure.
    heartbeats: SqlitePool,
    /// One permit, granted in the order of arrival: a connection that polls for the file lock would starve
    /// while writers take it one after the other.
    write_queue: Arc<Semaphore>,
    timeouts: DatabaseTimeouts,
    file: Option<File>,
}

/// Identifies the opened file, to detect that it was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Length of SQLite's log at which [`SqlitePools::checkpoint`] writes it back: SQLite's default for a checkpoint by a commit.
const CHECKPOINT_PAGES: i64 = 1_000;

/// Length of SQLite's log at which a commit writes it back, if there are too many writes for [`SqlitePools::checkpoint`].
const MAX_LOG_PAGES: &str = "16384";

impl SqlitePools {
    pub(crate) fn authentication(&self) -> Result<&SqlitePool, Error> {
        self.check_file()?;
        Ok(&self.authentication)
    }

    pub(crate) fn readers(&self) -> Result<&SqlitePool, Error> {
        self.check_file()?;
        Ok(&self.readers)
    }

    /// The connection for heartbeats, and the permit to write with it.
    pub(crate) async fn heartbeats(&self) -> Result<(&SqlitePool, OwnedSemaphorePermit), Error> {
        self.check_file()?;
        Ok((&self.heartbeats, self.write_permit(self.timeouts.lock).await?))
    }

    /// Writes the log back into the file if it is long. Writers do not wait, as they would for the checkpoint of a commit
    /// (<https://sqlite.org/wal.html>, "Application-Initiated Checkpoints").
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if the file cannot be written.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        let readers = self.readers()?;
        let (_, pages, done): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(NOOP)").fetch_one(readers).await?;
        if pages - done >= CHECKPOINT_PAGES {
            sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(readers).await?;
        }
        Ok(())
    }

    /// Waits for running transactions, then closes all connections.
    pub(crate) async fn close(&self) {
        self.authentication.close().await;
        self.readers.close().await;
        self.heartbeats.close().await;
        // Last: closing the last connection writes the log back into the file.
        self.writer.close().await;
    }

    /// Begins a write transaction after those of this process that wait already.
    pub(crate) async fn begin_write(&self) -> Result<SqliteTransaction, Error> {
        let permit = self.write_permit(self.timeouts.connection).await?;
        Ok(SqliteTransaction::new(self.writer.begin_with("BEGIN IMMEDIATE").await?, Some(permit)))
    }

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

/// Opens and migrates a database.
pub(crate) async fn open(
    options: &SqliteConnectOptions,
    location: SqliteLocation,
    timeouts: DatabaseTimeouts,
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
    migrations::sqlite().run(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}
