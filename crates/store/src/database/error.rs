//! Classifies database errors: transient, in doubt, or defects.

use std::path::PathBuf;
use std::time::Duration;

use runtime::files::quoted;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Transient: the database is unreachable, full or read-only.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// Transient: a limit of concurrent operations was reached, and a permit did not become free in time. The text
    /// names the limit.
    #[error("{0}")]
    Busy(&'static str),
    /// The connection was lost during a commit.
    #[error("lost the connection to the database during a commit: the transaction may be committed or not")]
    InDoubt(#[source] sqlx::Error),
    #[error("unknown database migration {0}: it was written by a newer supercargo")]
    Newer(i64),
    /// Another process has migrated the database for this long.
    #[error("another process has migrated the database for {0:?}: check whether it hangs, and start again")]
    Migrating(Duration),
    /// The file with the database's password is not readable.
    #[error("failed to read the database password from {}", quoted(.0))]
    Password(PathBuf, #[source] std::io::Error),
    /// A pooler gave a prepared statement to another connection.
    #[error(
        "the connection pooler does not support prepared statements: expected session mode, or PgBouncer 1.21 or later with max_prepared_statements above 0"
    )]
    Pooler(#[source] sqlx::Error),
    /// The migrations of the database differ from this version's.
    #[error("failed to migrate the database")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Any other error: a defect.
    #[error("unexpected database error")]
    Failed(#[source] sqlx::Error),
    /// The rows of a page exceed the maximum size of a page.
    #[error("the page would have more than 20 MB")]
    PageTooLarge,
    /// A value that this version did not write.
    #[error("failed to decode {0} from the database")]
    Unreadable(&'static str),
    /// A value that cannot be stored: a defect.
    #[error("failed to encode a value for the database")]
    Serialize(#[source] serde_json::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if is_unavailable(&error) {
            Self::Unavailable(error)
        } else if has_postgres_code(&error, &["42P05", "26000"]) {
            // Duplicate prepared statement, invalid statement name.
            Self::Pooler(error)
        } else {
            Self::Failed(error)
        }
    }
}

impl From<sqlx::migrate::MigrateError> for Error {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::VersionMissing(version) => Self::Newer(version),
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            error => Self::Migrate(error),
        }
    }
}

impl Error {
    /// Whether SQLite reports an I/O error without a cause. At startup a full disk is the likely one.
    #[must_use]
    pub fn is_disk_error(&self) -> bool {
        matches!(self, Self::Unavailable(error) if primary_code(error) == Some(10))
    }
}

/// Whether PostgreSQL returned one of these codes.
fn has_postgres_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let error = error.as_database_error();
    let error = error.filter(|error| error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some());
    error.and_then(sqlx::error::DatabaseError::code).is_some_and(|code| codes.contains(&&*code))
}

/// Whether a lock of PostgreSQL was not available in time.
pub(crate) fn is_lock_timeout(error: &sqlx::Error) -> bool {
    has_postgres_code(error, &["55P03"])
}

/// Whether PostgreSQL or a pooler closed the connection.
pub(crate) fn is_lost_connection(error: &sqlx::Error) -> bool {
    // Protocol violation, by poolers; shutdown by an administrator, crash, start; idle session.
    matches!(error, sqlx::Error::Io(_))
        || has_postgres_code(error, &["08P01", "57P01", "57P02", "57P03", "57P05"])
}

/// Whether another process has locked SQLite.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(5)
}

/// The primary result code of SQLite: the low byte of the extended code.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let error = error.as_database_error()?.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    Some(sqlx::error::DatabaseError::code(error)?.parse::<u32>().ok()? & 0xff)
}

/// Whether the state of the database caused the error, not the statement. SQLite: primary result codes
/// (sqlite.org/rescode.html). PostgreSQL: SQLSTATE classes and codes (documentation, "PostgreSQL Error Codes").
fn is_unavailable(error: &sqlx::Error) -> bool {
    use sqlx::Error as E;
    match error {
        E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::Protocol(_) => true,
        E::Database(error) => {
            let Some(code) = error.code() else { return false };
            if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                // Connection exception, insufficient resources, operator intervention, system error.
                let classes = ["08", "53", "57", "58"];
                // Read only, idle in transaction, serialization failure, deadlock, lock not available, authorization,
                // password, no such database, object not in prerequisite state.
                let codes = ["25006", "25P03", "40001", "40P01", "55P03", "28000", "28P01", "3D000", "55000"];
                return classes.iter().any(|class| code.starts_with(class)) || codes.contains(&&*code);
            }
            // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB.
            let primary = code.parse::<u32>().map_or(0, |code| code & 0xff);
            matches!(primary, 5 | 6 | 7 | 8 | 9 | 10 | 11 | 13 | 14 | 26)
        }
        _ => false,
    }
}
