//! Transactions, and macros to run the same statement on either database.

use std::ops::{Deref, DerefMut};

use sqlx::{Database, Postgres, Sqlite};
use tokio::sync::OwnedSemaphorePermit;

use crate::Error;
use crate::database::error::is_lost_connection;
use crate::database::pending_log::PendingLog;

/// A transaction. Dropping it rolls it back.
pub enum Transaction {
    Sqlite(SqliteTransaction),
    Postgres(PostgresTransaction),
}

pub(crate) type SqliteTransaction = DatabaseTransaction<Sqlite>;

pub(crate) type PostgresTransaction = DatabaseTransaction<Postgres>;

/// A transaction on one kind of database.
pub struct DatabaseTransaction<DB: Database> {
    transaction: sqlx::Transaction<'static, DB>,
    /// The write permit of SQLite. Dropped after the transaction, whose thread may still be rolling back then: the next
    /// writer waits for its connection, and a heartbeat some milliseconds for the file lock.
    _permit: Option<OwnedSemaphorePermit>,
    log: PendingLog,
}

impl<DB: Database> DatabaseTransaction<DB> {
    pub(crate) fn new(
        transaction: sqlx::Transaction<'static, DB>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { transaction, _permit: permit, log: PendingLog::default() }
    }
}

impl<DB: Database> Deref for DatabaseTransaction<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.transaction
    }
}

impl<DB: Database> DerefMut for DatabaseTransaction<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.transaction
    }
}

/// Runs an expression on either database: `on!(tx, |connection| sqlx::query(…).execute(connection).await)`.
macro_rules! on {
    ($transaction:expr, |$connection:ident| $body:expr) => {
        match $transaction {
            $crate::Transaction::Sqlite(transaction) => {
                let $connection = &mut **transaction;
                $body
            }
            $crate::Transaction::Postgres(transaction) => {
                let $connection = &mut **transaction;
                $body
            }
        }
    };
}
pub(crate) use on;

/// Executes a statement with its parameters, and returns the number of affected rows:
/// `execute!(tx, "DELETE FROM … WHERE id = $1", id)`.
macro_rules! execute {
    ($transaction:expr, $statement:expr $(, $value:expr)* $(,)?) => {
        $crate::database::transaction::on!($transaction, |connection| {
            sqlx::query($statement)$(.bind($value))*.execute(connection).await?.rows_affected()
        })
    };
}
pub(crate) use execute;

/// Runs a statement with its parameters, and converts its rows with a function of [`from_row`](crate::database::from_row).
macro_rules! fetch {
    ($fetch:ident, $convert:ident, $transaction:expr, $statement:expr $(, $value:expr)* $(,)?) => {
        $crate::database::transaction::on!($transaction, |connection| {
            let rows = sqlx::query($statement)$(.bind($value))*.$fetch(connection).await;
            rows.and_then($crate::database::from_row::$convert)?
        })
    };
}
pub(crate) use fetch;

/// All rows of a statement, as tuples or structs.
macro_rules! fetch_all {
    ($($part:tt)*) => { $crate::database::transaction::fetch!(fetch_all, all_from_rows, $($part)*) };
}
pub(crate) use fetch_all;

/// The only row of a statement.
macro_rules! fetch_one {
    ($($part:tt)*) => { $crate::database::transaction::fetch!(fetch_one, one_from_row, $($part)*) };
}
pub(crate) use fetch_one;

/// The row of a statement, if there is one.
macro_rules! fetch_optional {
    ($($part:tt)*) => { $crate::database::transaction::fetch!(fetch_optional, optional_from_row, $($part)*) };
}
pub(crate) use fetch_optional;

/// The only column of all rows.
macro_rules! fetch_scalars {
    ($($part:tt)*) => { $crate::database::transaction::fetch!(fetch_all, all_scalars, $($part)*) };
}
pub(crate) use fetch_scalars;

/// The only column of the only row.
macro_rules! fetch_scalar {
    ($($part:tt)*) => { $crate::database::transaction::fetch!(fetch_one, scalar, $($part)*) };
}
pub(crate) use fetch_scalar;

/// The only column of the row, if there is one.
macro_rules! fetch_optional_scalar {
    ($($part:tt)*) => { $crate::database::transaction::fetch!(fetch_optional, optional_scalar, $($part)*) };
}
pub(crate) use fetch_optional_scalar;

/// Maximum number of rows per statement: far below the parameter limits of SQLite (32,766) and PostgreSQL (65,535).
pub(crate) const MAX_STATEMENT_ROWS: usize = 1_000;

/// Runs an `INSERT` for many rows; `$end` follows the last row.
macro_rules! insert {
    ($transaction:expr, $start:expr, $end:expr, $rows:expr, |$values:ident, $row:pat_param| $push:expr) => {{
        let rows: Vec<_> = $rows.into_iter().collect();
        for chunk in rows.chunks($crate::database::transaction::MAX_STATEMENT_ROWS) {
            $crate::database::transaction::on!($transaction, |connection| {
                let mut query = sqlx::QueryBuilder::new($start);
                query.push_values(chunk, |mut $values, $row| $push);
                query.push($end);
                query.build().persistent(false).execute(connection).await?;
            });
        }
    }};
}
pub(crate) use insert;

/// Executes `$run` with a statement for each chunk of keys. `$start` pushes the statement up to `IN (`, `$end` follows
/// the keys.
macro_rules! in_chunks {
    ($transaction:expr, |$query:ident| $start:expr, $keys:expr, $end:expr,
     |$statement:ident, $connection:ident| $run:expr) => {{
        let keys: Vec<_> = $keys.into_iter().collect();
        for chunk in keys.chunks($crate::database::transaction::MAX_STATEMENT_ROWS) {
            $crate::database::transaction::on!($transaction, |$connection| {
                let mut $query = sqlx::QueryBuilder::new("");
                $start;
                let mut list = $query.separated(", ");
                for key in chunk {
                    list.push_bind(key.clone());
                }
                // Kept prepared for one key: that is frequent, and the text is always the same.
                let $statement = $query.push($end).build().persistent(chunk.len() == 1);
                $run
            });
        }
    }};
}
pub(crate) use in_chunks;

/// Pushes a statement up to its last `?`, with values for the others.
macro_rules! push_statement {
    ($query:ident, $statement:expr $(, $value:expr)*) => {{
        let mut parts = $statement.split('?');
        $($query.push(parts.next().unwrap_or_default()).push_bind($value);)*
        $query.push(parts.next().unwrap_or_default());
        // Only what follows the last `?` is left; a wrong number of values makes wrong SQL without an error.
        debug_assert_eq!(parts.count(), 1, "expected one value for each `?` but the last");
    }};
}
pub(crate) use push_statement;

/// Executes a statement for many keys, which are the list of its last `?`, and returns the number of affected rows:
/// `for_all!(tx, "DELETE FROM … WHERE organization = ? AND id IN (?)", ids, organization)`.
macro_rules! for_all {
    ($transaction:expr, $statement:expr, $keys:expr $(, $value:expr)*) => {{
        let mut affected = 0;
        $crate::database::transaction::in_chunks!(
            $transaction,
            |query| $crate::database::transaction::push_statement!(query, $statement $(, $value)*),
            $keys,
            $statement.rsplit('?').next().unwrap_or_default(),
            |statement, connection| {
                affected += statement.execute(connection).await?.rows_affected();
            }
        );
        affected
    }};
}
pub(crate) use for_all;

/// Runs a statement for many keys as [`for_all`] does, and returns all rows. A closure pushes what values cannot.
macro_rules! fetch_for_all {
    ($transaction:expr, $statement:ident, $keys:expr $(, $value:expr)*) => {
        $crate::database::transaction::fetch_for_all!(
            $transaction,
            |query| $crate::database::transaction::push_statement!(query, $statement $(, $value)*),
            $keys,
            $statement.rsplit('?').next().unwrap_or_default()
        )
    };
    ($transaction:expr, |$query:ident| $start:expr, $keys:expr, $end:expr) => {{
        let mut rows = Vec::new();
        $crate::database::transaction::in_chunks!(
            $transaction,
            |$query| $start,
            $keys,
            $end,
            |statement, connection| {
                let fetched = statement.fetch_all(connection).await;
                rows.append(&mut fetched.and_then($crate::database::from_row::all_from_rows)?);
            }
        );
        rows
    }};
}
pub(crate) use fetch_for_all;

/// A transaction in the data of one organization. Functions about a tenant take it, and every statement of theirs has its
/// organization.
pub struct Tenant<'a> {
    pub tx: &'a mut Transaction,
    /// The name of the organization.
    pub name: &'a str,
}

impl Transaction {
    /// Selects an organization.
    pub fn of<'a>(&'a mut self, organization: &'a str) -> Tenant<'a> {
        Tenant { tx: self, name: organization }
    }

    /// The changes of this transaction that `commit` appends to the log.
    pub(crate) fn log(&mut self) -> &mut PendingLog {
        match self {
            Self::Sqlite(transaction) => &mut transaction.log,
            Self::Postgres(transaction) => &mut transaction.log,
        }
    }

    /// Commits without the log: only `commit` may call it, which has appended the changes.
    pub(crate) async fn commit_appended(self) -> Result<(), Error> {
        match self {
            // Keeps the permit until the commit.
            Self::Sqlite(DatabaseTransaction { transaction, _permit, .. }) => transaction.commit().await?,
            Self::Postgres(DatabaseTransaction { transaction, .. }) => {
                transaction.commit().await.map_err(|error| match error {
                    // A pooler reports a lost connection as an error of the database.
                    sqlx::Error::Database(_) if !is_lost_connection(&error) => error.into(),
                    error => Error::InDoubt(error),
                })?;
            }
        }
        Ok(())
    }
}
