//! Parses database URLs. Never shows a password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use model::escape::Escaped;

/// A database URL: `sqlite:FILE`, `sqlite::memory:` or `postgres://…`. `Debug` and `Display` redact the password.
#[derive(Clone)]
pub enum DatabaseUrl {
    Sqlite {
        options: Box<SqliteConnectOptions>,
        location: SqliteLocation,
    },
    Postgres {
        options: Box<PgConnectOptions>,
        /// File with the password, which is reread.
        password_file: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteLocation {
    /// A file, created if missing.
    File,
    ReadOnlyFile,
    Memory,
}

/// An invalid database URL. The message does not quote it, because it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid database URL: {0}; expected sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE")]
pub struct InvalidUrl(&'static str);

/// The supported parameters of a PostgreSQL URL (PostgreSQL documentation, "Connection Strings").
const PARAMETERS: [&str; 12] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

impl FromStr for DatabaseUrl {
    type Err = InvalidUrl;

    fn from_str(url: &str) -> Result<Self, InvalidUrl> {
        if url.starts_with("sqlite:") {
            let malformed = InvalidUrl("malformed SQLite URL");
            let options = SqliteConnectOptions::from_str(url).map_err(|_| malformed.clone())?;
            let has = |parameter| parameters(url).any(|p| p == parameter);
            let file = options.get_filename().to_string_lossy().into_owned();
            let location = if has("mode=memory") || url.contains(":memory:") {
                SqliteLocation::Memory
            } else if file.is_empty() {
                return Err(malformed);
            } else if has("mode=ro") {
                SqliteLocation::ReadOnlyFile
            } else {
                SqliteLocation::File
            };
            let options = Box::new(if has("mode=rw") || location == SqliteLocation::ReadOnlyFile {
                options
            } else {
                options.create_if_missing(true)
            });
            Ok(Self::Sqlite { options, location })
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            // sqlx ignores unknown parameters, such as a misspelt sslmode.
            let mut names = parameters(url).filter_map(|p| p.split('=').next());
            if !names.all(|name| name.is_empty() || PARAMETERS.contains(&name)) {
                return Err(InvalidUrl("unknown parameter"));
            }
            let options = PgConnectOptions::from_str(url).map_err(|_| {
                InvalidUrl("malformed PostgreSQL URL, special characters must be percent-encoded")
            })?;
            let options = Box::new(options.application_name("supercargo"));
            Ok(Self::Postgres { options, password_file: None })
        } else {
            Err(InvalidUrl("unknown scheme"))
        }
    }
}

impl DatabaseUrl {
    /// Reads the password of PostgreSQL from this file.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidUrl`] for SQLite.
    pub fn with_password_file(self, file: Option<PathBuf>) -> Result<Self, InvalidUrl> {
        match (self, file) {
            (Self::Sqlite { .. }, Some(_)) => Err(InvalidUrl("SQLite has no password file")),
            (Self::Postgres { options, .. }, file) => Ok(Self::Postgres { options, password_file: file }),
            (url, None) => Ok(url),
        }
    }

    /// Whether a URL, even an invalid one, contains a password.
    #[must_use]
    pub fn contains_password(url: &str) -> bool {
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let in_authority = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
        in_authority || parameters(url).any(|parameter| parameter.starts_with("password="))
    }
}

fn parameters(url: &str) -> impl Iterator<Item = &str> {
    url.split_once('?').map_or("", |(_, parameters)| parameters).split('&')
}

/// For logs: without password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = match self {
            Self::Sqlite { location: SqliteLocation::Memory, .. } => "SQLite in memory".to_owned(),
            Self::Sqlite { options, .. } => format!("SQLite in {}", options.get_filename().display()),
            Self::Postgres { options, .. } => {
                let database = options.get_database().unwrap_or_else(|| options.get_username());
                let (host, port) = (options.get_host(), options.get_port());
                format!("PostgreSQL, database {database} at {host}:{port}")
            }
        };
        write!(f, "{}", Escaped(&shown))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_the_database_and_redacts_the_password() {
        for (url, shown) in [
            ("sqlite:/var/lib/x.db", "SQLite in /var/lib/x.db"),
            ("sqlite://x.db?mode=ro", "SQLite in x.db"),
            ("sqlite::memory:", "SQLite in memory"),
            ("sqlite:a%1b%0ab.db", r"SQLite in a\u{1b}\nb.db"),
            ("postgres://u@h/d%0ae", r"database d\ne at h:5432"),
            ("postgres://u:s3cret@db.example.com:5433/evidence", "database evidence at db.example.com:5433"),
            ("postgresql://u@h/d?password=s3cret&sslmode=require", "database d at h:5432"),
        ] {
            let url: DatabaseUrl = url.parse().unwrap();
            assert!(url.to_string().contains(shown), "{url}");
            assert!(!format!("{url} {url:?}").contains("s3cret"), "{url:?}");
        }
        for bad in [
            "postgres://u:s3cret@h/d?sslmod=require",
            "",
            "x.db",
            "mysql://u:s3cret@h/d",
            "sqlite:",
            "postgres://u:s3cret@h:port/d",
        ] {
            let error = bad.parse::<DatabaseUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn password_is_detected_in_authority_and_parameters() {
        for (url, contains) in [
            ("postgres://u:p@h/d", true),
            ("postgres://h/d?sslmode=require&password=p", true),
            ("postgres://u@h:5432/d", false),
            ("sqlite:a:b@c.db", false),
        ] {
            assert_eq!(DatabaseUrl::contains_password(url), contains, "{url}");
        }
    }
}
