//! Stores the sessions of signed-in browsers.

use super::columns::fingerprint;
use super::transaction::on;
use super::{Error, Store, Transaction};
use crate::domain::evidence::session::SessionTimes;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::from_row::optional_from_row;

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The hash of its token, which may have been closed since.
    pub token: Fingerprint,
    /// When it was created and last used.
    pub times: SessionTimes,
}

impl Store {
    /// The session with this hash, whether or not it has expired.
    pub async fn session(&self, session: Fingerprint) -> Result<Option<Session>, Error> {
        const SELECT: &str = "SELECT token, created_at, last_used_at FROM sessions WHERE sha256 = $1";
        let hash = session.bytes().as_slice();
        let row: Option<(Vec<u8>, i64, i64)> = match self {
            Self::Sqlite(pools) => sqlx::query(SELECT)
                .bind(hash)
                .fetch_optional(pools.authentication()?)
                .await
                .and_then(optional_from_row)?,
            Self::Postgres(pools) => sqlx::query(SELECT)
                .bind(hash)
                .fetch_optional(&pools.authentication)
                .await
                .and_then(optional_from_row)?,
        };
        row.map(|(token, created_at, last_used_at)| {
            let (created_at, last_used_at) =
                (Timestamp::from_micros(created_at), Timestamp::from_micros(last_used_at));
            Ok(Session { token: fingerprint(&token)?, times: SessionTimes { created_at, last_used_at } })
        })
        .transpose()
    }
}

impl Transaction {
    /// Opens a session for a token, identified by the hash of its secret. Ends the least recently used sessions of the
    /// token beyond `max_sessions`.
    pub async fn open_session(
        &mut self,
        session: Fingerprint,
        token: Fingerprint,
        now: Timestamp,
        max_sessions: u32,
    ) -> Result<(), Error> {
        const INSERT: &str =
            "INSERT INTO sessions (sha256, token, created_at, last_used_at) VALUES ($1, $2, $3, $3)";
        const DELETE: &str = "
            DELETE FROM sessions WHERE token = $1 AND sha256 NOT IN
            (SELECT sha256 FROM sessions WHERE token = $1 ORDER BY last_used_at DESC, created_at DESC LIMIT $2)";
        on!(self, |connection| {
            let insert = sqlx::query(INSERT).bind(session.bytes().as_slice()).bind(token.bytes().as_slice());
            insert.bind(now.micros()).execute(connection).await?;
        });
        on!(self, |connection| {
            let delete = sqlx::query(DELETE).bind(token.bytes().as_slice()).bind(i64::from(max_sessions));
            delete.execute(connection).await?;
        });
        Ok(())
    }

    /// Records that a session was used.
    pub async fn record_session_use(&mut self, session: Fingerprint, now: Timestamp) -> Result<(), Error> {
        const UPDATE: &str = "UPDATE sessions SET last_used_at = $2 WHERE sha256 = $1 AND last_used_at < $2";
        on!(self, |connection| {
            let update = sqlx::query(UPDATE).bind(session.bytes().as_slice());
            update.bind(now.micros()).execute(connection).await?;
        });
        Ok(())
    }

    /// Ends a session.
    pub async fn close_session(&mut self, session: Fingerprint) -> Result<(), Error> {
        const DELETE: &str = "DELETE FROM sessions WHERE sha256 = $1";
        on!(self, |connection| {
            sqlx::query(DELETE).bind(session.bytes().as_slice()).execute(connection).await?;
        });
        Ok(())
    }

    /// Removes the sessions that were last used before `idle` or created before `oldest`.
    pub async fn remove_sessions(&mut self, idle: Timestamp, oldest: Timestamp) -> Result<(), Error> {
        const DELETE: &str = "DELETE FROM sessions WHERE last_used_at < $1 OR created_at < $2";
        on!(self, |connection| {
            sqlx::query(DELETE).bind(idle.micros()).bind(oldest.micros()).execute(connection).await?;
        });
        Ok(())
    }
}
