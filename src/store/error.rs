//! How a database fails.

/// A database that could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, is full, or takes no writes: later it may.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// It went away while it was told to keep what was written.
    #[error("the database went away; whether it kept what was written is not known")]
    InDoubt(#[source] sqlx::Error),
    /// It was written by a newer version.
    #[error(
        "the database has migration {0}, which this version does not know: it was written by a newer supercargo"
    )]
    Newer(i64),
    /// It holds migrations, but other ones.
    #[error("the database cannot be brought to this version's schema")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Anything else: a defect.
    #[error("the database failed")]
    Failed(#[source] sqlx::Error),
    /// It holds what this version did not write.
    #[error("the database holds {0}, which cannot be read")]
    Unreadable(&'static str),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if is_unavailable(&error) { Self::Unavailable(error) } else { Self::Failed(error) }
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
    /// Whether SQLite could not read or write a file, and does not say why: at its start a full disk is that.
    #[must_use]
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, Self::Unavailable(error) if primary_code(error) == Some(10))
    }
}

/// Whether SQLite is locked by another.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(5)
}

/// SQLite's code, without what extends it: the low byte.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let error = error.as_database_error()?.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    Some(sqlx::error::DatabaseError::code(error)?.parse::<u32>().ok()? & 0xff)
}

/// Whether it is the database's state, and not what was asked, that is at fault. The codes of
/// SQLite are its primary result codes (sqlite.org/rescode.html), those of PostgreSQL are classes of
/// its SQLSTATE (documentation, "PostgreSQL Error Codes").
fn is_unavailable(error: &sqlx::Error) -> bool {
    use sqlx::Error as E;
    match error {
        E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::Protocol(_) => true,
        E::Database(error) => {
            let Some(code) = error.code() else { return false };
            if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                // Connection, resources, operator, system, and: out of transactions' time, read only,
                // serialization, lock not available, not accepting connections.
                let classes = ["08", "53", "57", "58"];
                let codes = ["25006", "25P03", "40001", "40P01", "55P03", "28000", "28P01", "3D000", "55000"];
                return classes.iter().any(|class| code.starts_with(class)) || codes.contains(&&*code);
            }
            // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB: the low
            // byte of an extended code.
            let primary = code.parse::<u32>().map_or(0, |code| code & 0xff);
            matches!(primary, 5 | 6 | 7 | 8 | 9 | 10 | 11 | 13 | 14 | 26)
        }
        _ => false,
    }
}
