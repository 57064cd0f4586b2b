//! Stores the sessions of signed-in browsers.

use crate::database::columns::{Json, json};
use crate::database::connect::authenticate;
use crate::database::transaction::execute;
use crate::{Error, Store, Transaction};
use model::{Fingerprint, Timestamp};
use rules::identity::Person;
use rules::session::SessionTimes;

#[derive(Debug, Clone)]
pub struct Session {
    /// The hash of its token, which may have been closed since, or of its person.
    pub token: Fingerprint,
    /// The person who signed in at an issuer; `None` for a session of a token.
    pub person: Option<Person>,
    /// When it was created and last used.
    pub times: SessionTimes,
}

/// The session with this hash, whether or not it has expired.
pub async fn get(store: &Store, session: Fingerprint) -> Result<Option<Session>, Error> {
    const SELECT: &str = "SELECT token, person, created_at, last_used_at FROM sessions WHERE sha256 = $1";
    let row: Option<(Fingerprint, Json<Option<Person>>, Timestamp, Timestamp)> =
        authenticate!(store, fetch_optional, optional_from_row, SELECT, session);
    let session = |(token, Json(person), created_at, last_used_at)| Session {
        token,
        person,
        times: SessionTimes { created_at, last_used_at },
    };
    Ok(row.map(session))
}

/// Opens a session for a token or a person, identified by the hash of its secret. Ends the least recently used sessions
/// of the token or person beyond `max_sessions`.
pub async fn open(
    transaction: &mut Transaction,
    session: Fingerprint,
    token: Fingerprint,
    person: Option<&Person>,
    now: Timestamp,
    max_sessions: u32,
) -> Result<(), Error> {
    const INSERT: &str =
        "INSERT INTO sessions (sha256, token, person, created_at, last_used_at) VALUES ($1, $2, $3, $4, $4)";
    const DELETE: &str = "
        DELETE FROM sessions WHERE token = $1 AND sha256 NOT IN
        (SELECT sha256 FROM sessions WHERE token = $1 ORDER BY last_used_at DESC, created_at DESC LIMIT $2)";
    let person = person.map(json).transpose()?;
    execute!(transaction, INSERT, session, token, &person, now);
    execute!(transaction, DELETE, token, i64::from(max_sessions));
    Ok(())
}

/// Records that a session was used.
pub async fn record_use(
    transaction: &mut Transaction,
    session: Fingerprint,
    now: Timestamp,
) -> Result<(), Error> {
    const UPDATE: &str = "UPDATE sessions SET last_used_at = $2 WHERE sha256 = $1 AND last_used_at < $2";
    execute!(transaction, UPDATE, session, now);
    Ok(())
}

pub async fn close(transaction: &mut Transaction, session: Fingerprint) -> Result<(), Error> {
    const DELETE: &str = "DELETE FROM sessions WHERE sha256 = $1";
    execute!(transaction, DELETE, session);
    Ok(())
}

/// Removes the sessions that were last used before `idle` or created before `oldest`.
pub async fn remove(transaction: &mut Transaction, idle: Timestamp, oldest: Timestamp) -> Result<(), Error> {
    const DELETE: &str = "DELETE FROM sessions WHERE last_used_at < $1 OR created_at < $2";
    execute!(transaction, DELETE, idle, oldest);
    Ok(())
}
