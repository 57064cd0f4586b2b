//! The migrations of both databases.

use sqlx::migrate::Migrator;

static SHARED: Migrator = sqlx::migrate!("./migrations");
/// Triggers, whose syntax differs.
static SQLITE: Migrator = sqlx::migrate!("./migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("./migrations/postgres");

pub(super) fn sqlite() -> Migrator {
    with(&SQLITE)
}

pub(super) fn postgres() -> Migrator {
    with(&POSTGRES)
}

/// The shared migrations and those of one database, in the order of their numbers.
fn with(own: &Migrator) -> Migrator {
    Migrator::with_migrations(SHARED.iter().chain(own.iter()).cloned().collect())
}
