//! A transaction on either database.

use sqlx::{Postgres, Sqlite};

use super::Error;

/// What is read or written together. One that is dropped did nothing.
pub enum Transaction {
    /// On SQLite.
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    /// On PostgreSQL.
    Postgres(sqlx::Transaction<'static, Postgres>),
}

/// Does the same on either database: `on!(tx, |connection| sqlx::query(…).execute(connection).await)`.
macro_rules! on {
    ($transaction:expr, |$connection:ident| $body:expr) => {
        match $transaction {
            $crate::store::Transaction::Sqlite(transaction) => {
                let $connection = &mut **transaction;
                $body
            }
            $crate::store::Transaction::Postgres(transaction) => {
                let $connection = &mut **transaction;
                $body
            }
        }
    };
}
pub(super) use on;

/// The rows that one statement writes: far below the parameters that SQLite (32,766) and PostgreSQL
/// (65,535) take in one.
pub(super) const ROWS: usize = 1_000;

/// Runs an `INSERT` for many rows; `$end` stands behind the last.
macro_rules! insert {
    ($transaction:expr, $start:expr, $end:expr, $rows:expr, |$values:ident, $row:pat_param| $push:expr) => {{
        let rows: Vec<_> = $rows.into_iter().collect();
        for chunk in rows.chunks($crate::store::transaction::ROWS) {
            $crate::store::transaction::on!($transaction, |connection| {
                let mut query = sqlx::QueryBuilder::new($start);
                query.push_values(chunk, |mut $values, $row| $push);
                query.push($end);
                query.build().persistent(false).execute(connection).await?;
            });
        }
    }};
}
pub(super) use insert;

/// Does `$run` with a statement for many keys, some at a time: `$start` pushes all of it up to and with `IN`,
/// `$end` stands behind the keys.
macro_rules! in_chunks {
    ($transaction:expr, |$query:ident| $start:expr, $keys:expr, $end:expr, |$connection:ident| $run:expr) => {{
        let keys: Vec<_> = $keys.into_iter().collect();
        for chunk in keys.chunks($crate::store::transaction::ROWS) {
            $crate::store::transaction::on!($transaction, |$connection| {
                let mut $query = sqlx::QueryBuilder::new("");
                $start;
                $query.push(" (");
                let mut list = $query.separated(", ");
                for key in chunk {
                    list.push_bind(key.clone());
                }
                $query.push(")").push($end);
                $run
            });
        }
    }};
}
pub(super) use in_chunks;

/// Runs a statement for many keys.
macro_rules! for_all {
    ($transaction:expr, |$query:ident| $start:expr, $keys:expr) => {
        $crate::store::transaction::in_chunks!($transaction, |$query| $start, $keys, "", |connection| {
            $query.build().persistent(false).execute(connection).await?;
        })
    };
}
pub(super) use for_all;

/// The rows that a `SELECT` has for many keys.
macro_rules! fetch_for_all {
    ($transaction:expr, |$query:ident| $start:expr, $keys:expr, $end:expr) => {{
        let mut rows = Vec::new();
        $crate::store::transaction::in_chunks!($transaction, |$query| $start, $keys, $end, |connection| {
            rows.append(&mut $query.build_query_as().persistent(false).fetch_all(connection).await?);
        });
        rows
    }};
}
pub(super) use fetch_for_all;

impl Transaction {
    /// Keeps what was written.
    ///
    /// # Errors
    ///
    /// [`Error::InDoubt`] where nobody knows whether it was; with any other, nothing was.
    pub async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await?,
            Self::Postgres(transaction) => transaction.commit().await.map_err(|error| match error {
                sqlx::Error::Database(_) => error.into(),
                error => Error::InDoubt(error),
            })?,
        }
        Ok(())
    }
}
