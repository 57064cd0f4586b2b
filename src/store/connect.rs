//! Opening a database: its pools, its migrations.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, PgConnection, PgPool, SqlitePool};
use tokio::time::{Instant, sleep, timeout};

use super::error::is_busy;
use super::url::{DatabaseUrl, SqlitePlace};
use super::{Error, Transaction};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// An open database.
#[derive(Clone)]
pub enum Store {
    /// SQLite, in a file or in memory.
    Sqlite(SqlitePools),
    /// PostgreSQL.
    Postgres(PgPools),
}

/// What writes may wait for a lock, a heartbeat among it, and who reads must not wait for a connection meanwhile.
#[derive(Clone)]
pub struct PgPools {
    pub(super) readers: PgPool,
    pub(super) writers: PgPool,
}

/// SQLite has one writer at a time: within a process writers queue for its connection, and only the
/// heartbeat and other processes wait for the file's lock.
#[derive(Clone)]
pub struct SqlitePools {
    readers: SqlitePool,
    writer: SqlitePool,
    /// Writes that may be lost with the machine's power, and nothing else.
    toucher: SqlitePool,
    file: Option<File>,
}

/// The file that was opened, to be told from another that was put in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// How long a database is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connection: Duration,
    /// For a statement.
    pub statement: Duration,
    /// For a lock.
    pub lock: Duration,
    /// How many connections a pool holds at most; PostgreSQL has one for reads and one for writes.
    pub connections: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connection: Duration::from_secs(5),
            statement: Duration::from_secs(30),
            lock: Duration::from_secs(10),
            connections: 10,
        }
    }
}

impl Store {
    /// Opens a database and brings it to this version's schema, under a lock: of several processes
    /// that start at once, one migrates and the others wait.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where it cannot be opened, [`Error::Newer`] where a newer version wrote
    /// it.
    pub async fn open(url: &DatabaseUrl, patience: Patience) -> Result<Self, Error> {
        match url {
            DatabaseUrl::Sqlite { options, place } => {
                Ok(Self::Sqlite(open_sqlite(options, *place, patience).await?))
            }
            DatabaseUrl::Postgres(options) => Ok(Self::Postgres(open_postgres(options, patience).await?)),
        }
    }

    /// Begins to read: what one transaction sees does not change under it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where there is no connection.
    pub async fn read(&self) -> Result<Transaction, Error> {
        Ok(match self {
            Self::Sqlite(pools) => Transaction::Sqlite(pools.readers()?.begin().await?),
            Self::Postgres(pools) => Transaction::Postgres(
                pools.readers.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
            ),
        })
    }

    /// Begins to write. On SQLite at once, for a transaction that reads first and then wants to write
    /// fails without waiting (<https://sqlite.org/lang_transaction.html>).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where there is no connection.
    pub async fn write(&self) -> Result<Transaction, Error> {
        Ok(match self {
            Self::Sqlite(pools) => Transaction::Sqlite(pools.writer.begin_with("BEGIN IMMEDIATE").await?),
            Self::Postgres(pools) => Transaction::Postgres(pools.writers.begin().await?),
        })
    }

    /// Whether it answers.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(pools) => sqlx::query("SELECT 1").execute(pools.readers()?).await.map(drop)?,
            Self::Postgres(pools) => sqlx::query("SELECT 1").execute(&pools.readers).await.map(drop)?,
        }
        Ok(())
    }

    /// How many connections are open, and how many of those are idle.
    #[must_use]
    pub fn connections(&self) -> (u32, u32) {
        let of = |size: u32, idle: usize| (size, u32::try_from(idle).unwrap_or(u32::MAX));
        match self {
            Self::Sqlite(pools) => of(pools.readers.size(), pools.readers.num_idle()),
            Self::Postgres(PgPools { readers, writers }) => {
                of(readers.size() + writers.size(), readers.num_idle() + writers.num_idle())
            }
        }
    }

    /// How many writes one organization may have under way, so that others get at the database, too: SQLite has one
    /// writer, and whoever comes next waits for one of another's at most.
    #[must_use]
    pub fn writes_of_one(&self) -> u32 {
        match self {
            Self::Sqlite(_) => 1,
            Self::Postgres(pools) => pools.writers.options().get_max_connections() / 2,
        }
    }

    /// How many reads one token may have under way.
    #[must_use]
    pub fn reads_of_token(&self) -> u32 {
        self.readers() / 2
    }

    /// How many reads all tokens of one organization may have under way together, so that one token leaves some to the
    /// others, and they, with the pages that are made for them, some to other organizations, and to whoever wants to
    /// know whose token came with a request.
    #[must_use]
    pub fn reads_of_organization(&self) -> u32 {
        self.readers() * 2 / 3
    }

    /// How many connections those who read share.
    fn readers(&self) -> u32 {
        match self {
            Self::Sqlite(pools) => pools.readers.options().get_max_connections(),
            Self::Postgres(pools) => pools.readers.options().get_max_connections(),
        }
    }

    /// Waits for what is under way, and closes it.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(pools) => {
                pools.readers.close().await;
                pools.toucher.close().await;
                // Last, so that the log is written back into the file.
                pools.writer.close().await;
            }
            Self::Postgres(pools) => {
                pools.readers.close().await;
                pools.writers.close().await;
            }
        }
    }
}

impl SqlitePools {
    pub(super) fn readers(&self) -> Result<&SqlitePool, Error> {
        self.is_in_place()?;
        Ok(&self.readers)
    }

    pub(super) fn toucher(&self) -> Result<&SqlitePool, Error> {
        self.is_in_place()?;
        Ok(&self.toucher)
    }

    /// Makes sure that the file still is where it was opened: what is written to one that was removed is
    /// gone with this process.
    fn is_in_place(&self) -> Result<(), Error> {
        let moved = |why| Error::Unavailable(sqlx::Error::Io(std::io::Error::other(why)));
        match &self.file {
            Some(file) if File::at(&file.path).as_ref() != Some(file) => {
                Err(moved("its file was removed or replaced: put it back, or start again"))
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
    place: SqlitePlace,
    patience: Patience,
) -> Result<SqlitePools, Error> {
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(patience.connection)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false);
    let options = options
        .clone()
        .foreign_keys(true)
        .busy_timeout(patience.lock)
        .pragma("journal_size_limit", "67108864")
        // In a container there may be no other folder to write to than the database's.
        .pragma("temp_store", "memory");
    let single = |options: SqliteConnectOptions| pool.clone().max_connections(1).connect_with(options);
    if place == SqlitePlace::Memory {
        // Each connection would have a database of its own.
        let only = single(options).await?;
        migrate_sqlite(&only, "BEGIN IMMEDIATE").await?;
        return Ok(SqlitePools { readers: only.clone(), writer: only.clone(), toucher: only, file: None });
    }
    if place == SqlitePlace::File {
        create_private(options.get_filename());
    }
    let durable = options.clone().synchronous(SqliteSynchronous::Full);
    let durable = match place {
        SqlitePlace::ReadOnlyFile => durable,
        _ => durable.journal_mode(SqliteJournalMode::Wal),
    };
    // A full disk makes SQLite end a transaction by itself, which sqlx then takes to be open for ever
    // (<https://sqlite.org/lang_transaction.html>, "Response To Errors Within A Transaction"). Such a connection is
    // closed, and the next write opens another. A rollback that is under way is over after a ping.
    let writers = pool.clone().max_connections(1).after_release(|connection, _| {
        Box::pin(async move {
            connection.ping().await?;
            Ok(!connection.is_in_transaction())
        })
    });
    // Two processes that start at once both turn the log on, for which SQLite does not wait by itself
    // (<https://sqlite.org/wal.html>, "Sometimes Queries Return SQLITE_BUSY In WAL Mode").
    let start = Instant::now();
    let writer = loop {
        match writers.clone().connect_with(durable.clone()).await {
            Err(error) if is_busy(&error) && start.elapsed() < patience.lock => {
                sleep(Duration::from_millis(20)).await;
            }
            opened => break opened?,
        }
    };
    let begin = if place == SqlitePlace::ReadOnlyFile { "BEGIN" } else { "BEGIN IMMEDIATE" };
    migrate_sqlite(&writer, begin).await?;
    // Who comes later finds the file, or nothing.
    let options = options.create_if_missing(false);
    writer.set_connect_options(durable.create_if_missing(false));
    let toucher = single(options.clone().synchronous(SqliteSynchronous::Normal)).await?;
    let readers = pool.max_connections(patience.connections).min_connections(1);
    let readers = readers.connect_with(options.clone().pragma("query_only", "ON")).await?;
    Ok(SqlitePools { readers, writer, toucher, file: File::at(options.get_filename()) })
}

/// Creates a file that only its owner reads; SQLite gives its log the same rights. Where that fails,
/// opening it says why.
fn create_private(path: &Path) {
    let _ = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
}

async fn migrate_sqlite(pool: &SqlitePool, begin: &'static str) -> Result<(), Error> {
    let mut transaction = pool.begin_with(begin).await?;
    MIGRATIONS.run(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

async fn open_postgres(options: &PgConnectOptions, patience: Patience) -> Result<PgPools, Error> {
    let milliseconds = |duration: Duration| duration.as_millis().to_string();
    let pool =
        PgPoolOptions::new().acquire_timeout(patience.connection).max_connections(patience.connections);
    // Without limits on time, for a migration may take some. sqlx holds an advisory lock meanwhile.
    // By itself, since a pool would try again and then say that it waited.
    let connecting = timeout(patience.connection, PgConnection::connect_with(options));
    let mut migrating = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    MIGRATIONS.run(&mut migrating).await?;
    migrating.close().await?;
    let options = options.clone().options([
        ("statement_timeout", milliseconds(patience.statement)),
        ("lock_timeout", milliseconds(patience.lock)),
        ("idle_in_transaction_session_timeout", milliseconds(2 * patience.statement)),
    ]);
    let readers = pool.clone().connect_with(options.clone()).await?;
    let writers = pool.connect_with(options).await?;
    Ok(PgPools { readers, writers })
}
