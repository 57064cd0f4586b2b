//! Browsers that are signed in.

use super::columns::fingerprint;
use super::transaction::on;
use super::{Error, Transaction};
use crate::domain::evidence::session::Used;
use crate::domain::model::{Fingerprint, Timestamp};

/// A session, and what it was made of.
#[derive(Debug, Clone)]
pub struct Session {
    /// The hash of its token, which may be closed meanwhile.
    pub token: Fingerprint,
    /// When it was used.
    pub used: Used,
}

impl Transaction {
    /// Opens a session of a token, under the hash of its secret; of more than `most` of one token, those that nobody
    /// used for longest end.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn open_session(
        &mut self,
        session: Fingerprint,
        token: Fingerprint,
        now: Timestamp,
        most: u32,
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
            let delete = sqlx::query(DELETE).bind(token.bytes().as_slice()).bind(i64::from(most));
            delete.execute(connection).await?;
        });
        Ok(())
    }

    /// The session of this hash, over or not.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn session(&mut self, session: Fingerprint) -> Result<Option<Session>, Error> {
        const SELECT: &str = "SELECT token, created_at, last_used_at FROM sessions WHERE sha256 = $1";
        let row: Option<(Vec<u8>, i64, i64)> = on!(self, |connection| {
            sqlx::query_as(SELECT).bind(session.bytes().as_slice()).fetch_optional(connection).await?
        });
        row.map(|(token, created_at, last_used_at)| {
            let (created_at, last_used_at) =
                (Timestamp::from_micros(created_at), Timestamp::from_micros(last_used_at));
            Ok(Session { token: fingerprint(&token)?, used: Used { created_at, last_used_at } })
        })
        .transpose()
    }

    /// Notes that a session is used.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn note_session(&mut self, session: Fingerprint, now: Timestamp) -> Result<(), Error> {
        const UPDATE: &str = "UPDATE sessions SET last_used_at = $2 WHERE sha256 = $1 AND last_used_at < $2";
        on!(self, |connection| {
            let update = sqlx::query(UPDATE).bind(session.bytes().as_slice());
            update.bind(now.micros()).execute(connection).await?;
        });
        Ok(())
    }

    /// Ends a session.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn close_session(&mut self, session: Fingerprint) -> Result<(), Error> {
        const DELETE: &str = "DELETE FROM sessions WHERE sha256 = $1";
        on!(self, |connection| {
            sqlx::query(DELETE).bind(session.bytes().as_slice()).execute(connection).await?;
        });
        Ok(())
    }

    /// Removes the sessions that nobody used since `idle`, and those that began before `oldest`.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn remove_sessions(&mut self, idle: Timestamp, oldest: Timestamp) -> Result<(), Error> {
        const DELETE: &str = "DELETE FROM sessions WHERE last_used_at < $1 OR created_at < $2";
        on!(self, |connection| {
            sqlx::query(DELETE).bind(idle.micros()).bind(oldest.micros()).execute(connection).await?;
        });
        Ok(())
    }
}
