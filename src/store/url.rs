//! Where a database is, without ever saying its password.

use std::fmt;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

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

/// The parameters of a PostgreSQL URL (PostgreSQL documentation, "Connection Strings") that are
/// honoured.
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
            // sqlx passes over what it does not know, and a misspelt sslmode with it.
            let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
            let named =
                parameters.split('&').filter_map(|p| p.split('=').next()).filter(|name| !name.is_empty());
            if !named.into_iter().all(|name| PARAMETERS.contains(&name)) {
                return Err(InvalidUrl("it has a parameter that is not known"));
            }
            let options = PgConnectOptions::from_str(url)
                .map_err(|_| InvalidUrl("it is no PostgreSQL connection URI, in which other characters than letters and digits are percent-encoded"))?;
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
