//! Opens the database, runs migrations and hands out connections from its pools.

use crate::database::postgres::PgPools;
use crate::database::sqlite::{self, SqlitePools};
use crate::database::timeouts::DatabaseTimeouts;
use crate::database::transaction::SqliteTransaction;
use crate::database::url::DatabaseUrl;
use crate::{Error, Transaction};
use model::Timestamp;

/// Runs a statement outside of a transaction, on the connections for tokens and sessions.
macro_rules! authenticate {
    ($store:expr, $fetch:ident, $convert:ident, $statement:expr $(, $value:expr)*) => {
        match $store {
            $crate::Store::Sqlite(pools) => {
                let select = sqlx::query($statement)$(.bind($value))*;
                $crate::database::from_row::$convert(select.$fetch(pools.authentication()?).await?)?
            }
            $crate::Store::Postgres(pools) => {
                let select = sqlx::query($statement)$(.bind($value))*;
                let rows = pools.authenticate(select.$fetch(&pools.authentication)).await?;
                $crate::database::from_row::$convert(rows)?
            }
        }
    };
}
pub(crate) use authenticate;

#[derive(Clone)]
pub enum Store {
    /// SQLite, in a file or in memory.
    Sqlite(SqlitePools),
    Postgres(PgPools),
}

#[derive(Debug, Clone, Copy)]
pub struct PoolSizes {
    pub readers: u32,
    pub writers: u32,
}

impl Store {
    /// Opens a database and migrates it to this version's schema. A lock makes other processes wait that start at
    /// the same time.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if it cannot be opened, [`Error::Newer`] if a newer version migrated it,
    /// [`Error::Migrating`] if another process migrates it for too long, and [`Error::Pooler`] behind a pooler that does not
    /// support prepared statements.
    pub async fn open(url: &DatabaseUrl, timeouts: DatabaseTimeouts) -> Result<Self, Error> {
        match url {
            DatabaseUrl::Sqlite { options, location } => {
                Ok(Self::Sqlite(sqlite::open(options, *location, timeouts).await?))
            }
            DatabaseUrl::Postgres { options, password_file } => {
                let pools = PgPools::new(options, password_file.as_deref(), timeouts).await?;
                pools.migrate().await?;
                Ok(Self::Postgres(pools))
            }
        }
    }

    /// Opens a database, and a replica of it for reads that may be late. Connects to the replica when it is first used: the
    /// service does not depend on it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open) for the first, and [`Error::Password`].
    pub async fn open_with_replica(
        primary: &DatabaseUrl,
        replica: Option<&DatabaseUrl>,
        timeouts: DatabaseTimeouts,
    ) -> Result<(Self, Option<Self>), Error> {
        let primary = Self::open(primary, timeouts).await?;
        let replica = match replica {
            Some(DatabaseUrl::Postgres { options, password_file }) => {
                Some(Self::Postgres(PgPools::new(options, password_file.as_deref(), timeouts).await?))
            }
            _ => None,
        };
        Ok((primary, replica))
    }

    /// The time as of which a standby answers reads; `None` for any other database, which answers as of now.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unavailable`] if there is no connection.
    pub async fn replayed_until(&self) -> Result<Option<Timestamp>, Error> {
        const SELECT: &str = "
            SELECT CAST(EXTRACT(EPOCH FROM COALESCE(pg_last_xact_replay_timestamp(),
                          -- No transaction since the standby was created.
                          (SELECT checkpoint_time FROM pg_control_checkpoint()))) * 1000000 AS BIGINT)
            WHERE pg_is_in_recovery()";
        let Self::Postgres(pools) = self else { return Ok(None) };
        let mut transaction = pools.read().await?;
        let micros: Option<i64> = sqlx::query_scalar(SELECT).fetch_optional(&mut *transaction).await?;
        Ok(micros.map(Timestamp::from_micros))
    }

    /// Rereads the password of PostgreSQL, for new connections.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Password`] if the file cannot be read.
    pub async fn reread_password(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(pools) => pools.reread_password().await,
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
            Self::Postgres(pools) => Transaction::Postgres(pools.read().await?),
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
            Self::Sqlite(pools) => Transaction::Sqlite(pools.begin_write().await?),
            Self::Postgres(pools) => Transaction::Postgres(pools.write().await?),
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
            Self::Postgres(pools) => drop(pools.read().await?),
        }
        Ok(())
    }

    /// The numbers of open and of idle connections.
    #[must_use]
    pub fn connections(&self) -> (u32, u32) {
        let (open, idle) = match self {
            Self::Sqlite(pools) => (pools.readers.size(), pools.readers.num_idle()),
            Self::Postgres(pools) => (
                pools.all().iter().map(|pool| pool.size()).sum(),
                pools.all().iter().map(|pool| pool.num_idle()).sum(),
            ),
        };
        (open, u32::try_from(idle).unwrap_or(u32::MAX))
    }

    /// The sizes of the pools for reads and for writes.
    #[must_use]
    pub fn pool_sizes(&self) -> PoolSizes {
        let [readers, writers] = match self {
            Self::Sqlite(pools) => {
                [&pools.readers, &pools.writer].map(|pool| pool.options().get_max_connections())
            }
            Self::Postgres(pools) => {
                [&pools.readers, &pools.writers].map(|pool| pool.options().get_max_connections())
            }
        };
        PoolSizes { readers, writers }
    }

    /// Waits for running transactions, then closes all connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(pools) => pools.close().await,
            Self::Postgres(pools) => {
                for pool in pools.all() {
                    pool.close().await;
                }
            }
        }
    }
}
