//! Opening a database: its URL, its pools, its migrations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};

use super::{Error, Transaction};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// An open database.
#[derive(Clone)]
pub enum Store {
    /// SQLite, in a file or in memory.
    Sqlite(SqlitePools),
    /// PostgreSQL.
    Postgres(PgPool),
}

/// SQLite has one writer at a time: others queue for its connection and not for the file's lock.
#[derive(Clone)]
pub struct SqlitePools {
    readers: SqlitePool,
    writer: SqlitePool,
    /// Writes that may be lost with the machine's power, and nothing else.
    toucher: SqlitePool,
}

/// Where a database is: `sqlite:FILE`, `sqlite::memory:` or `postgres://…`. Neither `Debug` nor
/// `Display` shows a password.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// SQLite.
    Sqlite {
        /// How to open it.
        options: Box<SqliteConnectOptions>,
        /// Where it is.
        place: SqlitePlace,
    },
    /// PostgreSQL.
    Postgres(Box<PgConnectOptions>),
}

/// Where SQLite keeps a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlitePlace {
    /// In a file that is created if it is missing.
    File,
    /// In a file that is only read.
    ReadOnlyFile,
    /// In this process's memory.
    Memory,
}

/// A URL that names no database; it is not quoted, since it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the database URL cannot be used: {0}; sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE was expected"
)]
pub struct InvalidUrl(&'static str);

/// How long a database is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connection: Duration,
    /// For a statement.
    pub statement: Duration,
    /// For a lock.
    pub lock: Duration,
    /// How many connections a pool holds at most.
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

impl FromStr for DatabaseUrl {
    type Err = InvalidUrl;

    fn from_str(url: &str) -> Result<Self, InvalidUrl> {
        if url.starts_with("sqlite:") {
            let unusable = InvalidUrl("SQLite cannot open it");
            let options = SqliteConnectOptions::from_str(url).map_err(|_| unusable.clone())?;
            let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
            let has = |parameter| parameters.split('&').any(|p| p == parameter);
            let file = options.get_filename().to_string_lossy().into_owned();
            let place = if has("mode=memory") || url.contains(":memory:") {
                SqlitePlace::Memory
            } else if file.is_empty() {
                return Err(unusable);
            } else if has("mode=ro") {
                SqlitePlace::ReadOnlyFile
            } else {
                SqlitePlace::File
            };
            let options = Box::new(if has("mode=rw") || place == SqlitePlace::ReadOnlyFile {
                options
            } else {
                options.create_if_missing(true)
            });
            Ok(Self::Sqlite { options, place })
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(url)
                .map_err(|_| InvalidUrl("it is no PostgreSQL connection URI"))?;
            Ok(Self::Postgres(Box::new(options.application_name("supercargo"))))
        } else {
            Err(InvalidUrl("its scheme is not known"))
        }
    }
}

impl DatabaseUrl {
    /// Whether a URL, right or wrong, holds a password.
    #[must_use]
    pub fn holds_password(url: &str) -> bool {
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let in_authority = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
        let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
        in_authority || parameters.split('&').any(|parameter| parameter.starts_with("password="))
    }
}

/// What a log may say of it.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { place: SqlitePlace::Memory, .. } => f.write_str("SQLite in memory"),
            Self::Sqlite { options, .. } => write!(f, "SQLite in {}", options.get_filename().display()),
            Self::Postgres(options) => {
                let database = options.get_database().unwrap_or_else(|| options.get_username());
                let (host, port) = (options.get_host(), options.get_port());
                write!(f, "PostgreSQL, database {database} at {host}:{port}")
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
            Self::Sqlite(pools) => Transaction::Sqlite(pools.readers.begin().await?),
            Self::Postgres(pool) => Transaction::Postgres(
                pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
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
            Self::Postgres(pool) => Transaction::Postgres(pool.begin().await?),
        })
    }

    /// Whether it answers.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(pools) => sqlx::query("SELECT 1").execute(&pools.readers).await.map(drop)?,
            Self::Postgres(pool) => sqlx::query("SELECT 1").execute(pool).await.map(drop)?,
        }
        Ok(())
    }

    /// How many connections are open, and how many of those are idle.
    #[must_use]
    pub fn connections(&self) -> (u32, u32) {
        let of = |size: u32, idle: usize| (size, u32::try_from(idle).unwrap_or(u32::MAX));
        match self {
            Self::Sqlite(pools) => of(pools.readers.size(), pools.readers.num_idle()),
            Self::Postgres(pool) => of(pool.size(), pool.num_idle()),
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
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

impl SqlitePools {
    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    pub(super) fn toucher(&self) -> &SqlitePool {
        &self.toucher
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
    let options = options.clone().foreign_keys(true).busy_timeout(patience.lock);
    let single = |options: SqliteConnectOptions| pool.clone().max_connections(1).connect_with(options);
    if place == SqlitePlace::Memory {
        // Each connection would have a database of its own.
        let only = single(options).await?;
        migrate_sqlite(&only, "BEGIN IMMEDIATE").await?;
        return Ok(SqlitePools { readers: only.clone(), writer: only.clone(), toucher: only });
    }
    let durable = options.clone().synchronous(SqliteSynchronous::Full);
    let durable = match place {
        SqlitePlace::ReadOnlyFile => durable,
        _ => durable.journal_mode(SqliteJournalMode::Wal),
    };
    let writer = single(durable).await?;
    let begin = if place == SqlitePlace::ReadOnlyFile { "BEGIN" } else { "BEGIN IMMEDIATE" };
    migrate_sqlite(&writer, begin).await?;
    let toucher = single(options.clone().synchronous(SqliteSynchronous::Normal)).await?;
    let readers = pool.max_connections(patience.connections).min_connections(1);
    let readers = readers.connect_with(options.pragma("query_only", "ON")).await?;
    Ok(SqlitePools { readers, writer, toucher })
}

async fn migrate_sqlite(pool: &SqlitePool, begin: &'static str) -> Result<(), Error> {
    let mut transaction = pool.begin_with(begin).await?;
    MIGRATIONS.run(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

async fn open_postgres(options: &PgConnectOptions, patience: Patience) -> Result<PgPool, Error> {
    let milliseconds = |duration: Duration| duration.as_millis().to_string();
    let pool =
        PgPoolOptions::new().acquire_timeout(patience.connection).max_connections(patience.connections);
    // Without limits on time, for a migration may take some. sqlx holds an advisory lock meanwhile.
    let migrating = pool.clone().max_connections(1).connect_with(options.clone()).await?;
    MIGRATIONS.run(&migrating).await?;
    migrating.close().await;
    let options = options.clone().options([
        ("statement_timeout", milliseconds(patience.statement)),
        ("lock_timeout", milliseconds(patience.lock)),
        ("idle_in_transaction_session_timeout", milliseconds(2 * patience.statement)),
    ]);
    Ok(pool.connect_with(options).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_the_database_is_and_never_the_password() {
        for (url, shown) in [
            ("sqlite:/var/lib/x.db", "SQLite in /var/lib/x.db"),
            ("sqlite://x.db?mode=ro", "SQLite in x.db"),
            ("sqlite::memory:", "SQLite in memory"),
            ("postgres://u:s3cret@db.example.com:5433/evidence", "database evidence at db.example.com:5433"),
            ("postgresql://u@h/d?password=s3cret&sslmode=require", "database d at h:5432"),
        ] {
            let url: DatabaseUrl = url.parse().unwrap();
            assert!(url.to_string().contains(shown), "{url}");
            assert!(!format!("{url} {url:?}").contains("s3cret"), "{url:?}");
        }
        for bad in ["", "x.db", "mysql://u:s3cret@h/d", "sqlite:", "postgres://u:s3cret@h:port/d"] {
            let error = bad.parse::<DatabaseUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_seen_wherever_it_stands() {
        for (url, holds) in [
            ("postgres://u:p@h/d", true),
            ("postgres://h/d?sslmode=require&password=p", true),
            ("postgres://u@h:5432/d", false),
            ("sqlite:a:b@c.db", false),
        ] {
            assert_eq!(DatabaseUrl::holds_password(url), holds, "{url}");
        }
    }
}
