//! Connections to PostgreSQL.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

use super::timeouts::{MAX_AUTHENTICATION_CONNECTIONS, Timeouts};
use super::{Error, migrations};

/// Separate pools: writers that wait for a lock must not starve readers, and neither may starve authentication.
#[derive(Clone)]
pub struct PgPools {
    /// For tokens and sessions.
    pub(super) authentication: PgPool,
    pub(super) readers: PgPool,
    pub(super) writers: PgPool,
}

/// A connection for tokens and sessions is tested before use after this idle time, since PostgreSQL may have restarted.
/// A test of each use would add a round trip to each request.
const MAX_IDLE_WITHOUT_TEST: Duration = Duration::from_secs(1);

/// Opens and migrates a database.
pub(super) async fn open(options: &PgConnectOptions, timeouts: Timeouts) -> Result<PgPools, Error> {
    let milliseconds = |duration: Duration| duration.as_millis().to_string();
    let pool =
        PgPoolOptions::new().acquire_timeout(timeouts.connection).max_connections(timeouts.max_connections);
    // Migrates without a statement timeout, under sqlx's advisory lock. Connects without a pool, which would retry
    // and report a timeout instead of the cause.
    let connecting = timeout(timeouts.connection, PgConnection::connect_with(options));
    let mut migrating = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    migrations::postgres().run(&mut migrating).await?;
    migrating.close().await?;
    let options = options.clone().options([
        ("statement_timeout", milliseconds(timeouts.statement)),
        ("lock_timeout", milliseconds(timeouts.lock)),
        ("idle_in_transaction_session_timeout", milliseconds(2 * timeouts.statement)),
    ]);
    let authentication = pool
        .clone()
        .max_connections(MAX_AUTHENTICATION_CONNECTIONS)
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                if metadata.idle_for > MAX_IDLE_WITHOUT_TEST {
                    connection.ping().await?;
                }
                Ok(true)
            })
        });
    let authentication = authentication.connect_with(options.clone()).await?;
    let readers = pool.clone().connect_with(options.clone()).await?;
    let writers = pool.connect_with(options).await?;
    Ok(PgPools { authentication, readers, writers })
}
