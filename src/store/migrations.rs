//! The migrations of both databases.

use sqlx::migrate::Migrator;

static SHARED: Migrator = sqlx::migrate!("./migrations");
/// Settings of tables that SQLite does not have.
static POSTGRES: Migrator = sqlx::migrate!("./migrations/postgres");

pub(super) fn sqlite() -> &'static Migrator {
    &SHARED
}

pub(super) fn postgres() -> Migrator {
    Migrator::with_migrations(SHARED.iter().chain(POSTGRES.iter()).cloned().collect())
}
