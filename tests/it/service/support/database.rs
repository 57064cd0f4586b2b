//! A new database for one test.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use sqlx::{Connection, PgConnection, Row, SqliteConnection};
use store::{DatabaseTimeouts, Store};
use tempfile::TempDir;

/// Used by one test and removed on drop.
pub enum Database {
    Sqlite(TempDir),
    Postgres { server: String, name: String },
}

impl Database {
    /// A copy of a database that was migrated once: migrations took a sixth of the processor time of all tests.
    pub fn sqlite() -> Self {
        static MIGRATED: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let migrate = async || {
                let database = Database::Sqlite(tempfile::tempdir().unwrap());
                let store =
                    Store::open(&database.url().parse().unwrap(), DatabaseTimeouts::default()).await.unwrap();
                store.close().await;
                fs::read(database.file()).unwrap()
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            std::thread::spawn(move || runtime.block_on(migrate())).join().unwrap()
        });
        let database = Self::Sqlite(tempfile::tempdir().unwrap());
        fs::write(database.file(), &*MIGRATED).unwrap();
        database
    }

    fn file(&self) -> PathBuf {
        let Self::Sqlite(folder) = self else { panic!("expected SQLite") };
        folder.path().join("evidence.db")
    }

    pub async fn postgres() -> Self {
        let server = std::env::var("SUPERCARGO_TEST_DATABASE").expect("SUPERCARGO_TEST_DATABASE");
        let name = format!("supercargo_test_{}", uuid::Uuid::now_v7().simple());
        let mut connection = PgConnection::connect(&server).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
        Self::Postgres { server, name }
    }

    /// The URL for the service, through the pooler that `SUPERCARGO_TEST_POOLER` names.
    pub fn url(&self) -> String {
        match std::env::var("SUPERCARGO_TEST_POOLER") {
            Ok(pooler) if self.is_postgres() => self.url_at(&pooler),
            _ => self.direct_url(),
        }
    }

    /// The URL of this database at another server.
    pub fn url_at(&self, server: &str) -> String {
        let Self::Postgres { name, .. } = self else { panic!("expected PostgreSQL") };
        let (start, end) = server.rsplit_once('/').unwrap();
        let parameters = end.split_once('?').map_or(String::new(), |(_, p)| format!("?{p}"));
        format!("{start}/{name}{parameters}")
    }

    /// The URL for the test.
    pub fn direct_url(&self) -> String {
        match self {
            Self::Sqlite(_) => format!("sqlite:{}", self.file().display()),
            Self::Postgres { server, .. } => self.url_at(server),
        }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// Rows of a query as text with `|` between the columns. The query must cast its columns to text.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        macro_rules! rows {
            ($connection:ty) => {{
                let mut connection = <$connection>::connect(&self.direct_url()).await.unwrap();
                let rows = sqlx::raw_sql(sql).fetch_all(&mut connection).await.unwrap();
                connection.close().await.unwrap();
                rows.iter()
                    .map(|row| {
                        let columns =
                            (0..row.len()).map(|n| row.get::<Option<String>, _>(n).unwrap_or_default());
                        columns.collect::<Vec<_>>().join("|")
                    })
                    .collect()
            }};
        }
        match self {
            Self::Sqlite(_) => rows!(SqliteConnection),
            Self::Postgres { .. } => rows!(PgConnection),
        }
    }

    /// Simulates an outage (`false`) or its end (`true`).
    pub async fn set_reachable(&self, reachable: bool) {
        match self {
            Self::Sqlite(folder) => {
                let (file, aside) = (folder.path().join("evidence.db"), folder.path().join("aside.db"));
                let (from, to) = if reachable { (aside, file) } else { (file, aside) };
                std::fs::rename(from, to).unwrap();
            }
            Self::Postgres { server, name } => {
                let mut connection = PgConnection::connect(server).await.unwrap();
                let allow = format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {reachable}");
                let cut = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
                );
                for sql in [allow, cut] {
                    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
                }
                connection.close().await.unwrap();
            }
        }
    }

    /// A literal of a column of type BYTEA.
    pub fn bytes(&self, hex: &str) -> String {
        if self.is_postgres() { format!("'\\x{hex}'") } else { format!("X'{hex}'") }
    }

    /// A literal of a column of type UUID.
    pub fn uuid(&self, id: uuid::Uuid) -> String {
        if self.is_postgres() { format!("'{id}'") } else { format!("X'{}'", id.simple()) }
    }

    /// Executes statements past the service.
    pub async fn execute(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(_) => {
                let url = format!("{}?mode=rwc", self.url());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Self::Postgres { .. } => {
                let mut connection = PgConnection::connect(&self.direct_url()).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Self::Postgres { server, name } = self else { return };
        let (server, drop) = (server.clone(), format!("DROP DATABASE {name} WITH (FORCE)"));
        // A separate thread, because this one may already run a runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server).await.unwrap();
                sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut connection).await.unwrap();
            });
        });
        dropped.join().unwrap();
    }
}
