//! `serve`: the compliance service.
//!
//! The command line starts it with a [`Setup`] and runs it until shutdown. `resources` has what clients see, by
//! resource; `engine` has what a change does: record, evaluate, notify, log.

pub mod engine;
pub(crate) mod layout;
pub(crate) mod resources;

mod app;
pub mod bootstrap;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod identity;
mod limits;
mod maintenance;
mod outbound;
mod site;

pub use http::body::Pace;
pub use limits::{Delivery, Limits};
pub use maintenance::clock::Clock;
pub use maintenance::random;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::app::{App, Networks};
use crate::bootstrap::{Bootstrap, BootstrapError};
use crate::engine::log_signer::LogSigner;
use crate::http::links::Links;
use crate::maintenance::admin::Probed;
use model::Fingerprint;
use runtime::error_causes;
use runtime::files::quoted;
use runtime::listener::{self, Bounds, ListenError};
use runtime::signing::{KeyError, SigningKey};
use runtime::tls::{self, Identity, TlsError};
use store::{DatabaseTimeouts, DatabaseUrl, Store};

#[derive(Debug, Clone)]
pub struct Setup {
    /// Address of the API and the pages.
    pub listen: SocketAddr,
    pub tls: Option<tls::Files>,
    /// Address of probes and metrics, over plain HTTP.
    pub admin_listen: SocketAddr,
    pub database: DatabaseUrl,
    /// A replica of it, for pages.
    pub database_read: Option<DatabaseUrl>,
    pub bootstrap: Option<PathBuf>,
    /// The URL for clients; by default the address of the listener.
    pub public_url: Option<Url>,
    pub limits: Limits,
    pub clock: Clock,
    pub bounds: Bounds,
    pub timeouts: DatabaseTimeouts,
    /// Internal networks of notification targets and issuers.
    pub allowed_internal: Vec<IpNet>,
    /// Networks of proxies whose `Forwarded` and `X-Forwarded-For` name the client.
    pub trusted_proxies: Vec<IpNet>,
    /// The private key that signs checkpoints of the logs.
    pub signing_key: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Responses and identifiers cannot express the time.
    #[error("the clock is before 1970: set it")]
    Clock,
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    SigningKey(#[from] KeyError),
    /// Reading the signing key takes too long, such as from a pipe without a writer.
    #[error("reading the signing key {} timed out after {KEY_TIMEOUT:?}", quoted(.0))]
    SigningKeyTimedOut(PathBuf),
    #[error("failed to open {0}")]
    Store(DatabaseUrl, #[source] store::Error),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The database has no organization, and there is no bootstrap file.
    #[error("the database has no organization: start the service with --bootstrap")]
    Empty,
    #[error("failed to determine the address of the listener")]
    Address(#[source] std::io::Error),
}

const KEY_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Service {
    app: App,
    listener: TcpListener,
    identity: Option<Identity>,
    admin: TcpListener,
    bootstrap: Option<PathBuf>,
    bounds: Bounds,
    address: SocketAddr,
    admin_address: SocketAddr,
}

impl Service {
    /// Listens, reads the certificate and the bootstrap file, opens the database and applies the file.
    ///
    /// # Errors
    ///
    /// Returns [`StartError`] if a step fails.
    pub async fn start(setup: Setup) -> Result<Self, StartError> {
        if SystemTime::now() < SystemTime::UNIX_EPOCH {
            return Err(StartError::Clock);
        }
        let listener = listener::listen(setup.listen, " (--listen, SUPERCARGO_LISTEN)").await?;
        let by = " (--admin-listen, SUPERCARGO_ADMIN_LISTEN)";
        let admin = listener::listen(setup.admin_listen, by).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        let admin_address = admin.local_addr().map_err(StartError::Address)?;
        let identity = match setup.tls {
            None => None,
            Some(files) => Some(Identity::load(files).await?),
        };
        let signing_key = match setup.signing_key {
            None => None,
            Some(path) => Some(read_signing_key(path).await?),
        };
        // Before the database is created: an invalid file leaves none behind.
        let bootstrap = match &setup.bootstrap {
            None => None,
            Some(path) => Some(Bootstrap::read(path).await?),
        };
        let scheme = if identity.is_some() { "https" } else { "http" };
        let failed = |error| StartError::Store(setup.database.clone(), error);
        let opened = Store::open_with_replica(&setup.database, setup.database_read.as_ref(), setup.timeouts);
        let (store, replica) = opened.await.map_err(failed)?;
        let public_url = setup.public_url.map_or_else(|| format!("{scheme}://{address}").parse(), Ok);
        let public_url = public_url.map_err(|e| StartError::Address(std::io::Error::other(e)))?;
        let links = Links::new(public_url, identity.is_some());
        let signer = LogSigner::new(&links, signing_key);
        let networks =
            Networks { allowed_internal: setup.allowed_internal, trusted_proxies: setup.trusted_proxies };
        let app = App::new(store, replica, &setup.limits, setup.clock, links, signer, networks);
        let applied = match bootstrap {
            None => false,
            Some(bootstrap) => match bootstrap::apply(&app, bootstrap).await {
                Ok(_) => true,
                // A rollback across a raised generation must not take the service down.
                Err(error) if error.newer_generation().is_some() => {
                    tracing::error!(
                        "{error}; serving the state in the database (see docs/guides/upgrade.md#recover)"
                    );
                    false
                }
                Err(error) => return Err(error.into()),
            },
        };
        if !applied
            && store::tokens::authentication::organizations(&app.site.store).await.map_err(failed)? == 0
        {
            return Err(StartError::Empty);
        }
        // The rate limit for invalid tokens never applies to valid ones.
        for token in store::tokens::authentication::open_tokens(&app.site.store).await.map_err(failed)? {
            app.limiter.admitted(token);
        }
        let bootstrap = setup.bootstrap;
        Ok(Self { app, listener, identity, admin, bootstrap, bounds: setup.bounds, address, admin_address })
    }

    /// The address of the API and the pages.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of probes and metrics.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// A link that signs in to the pages with this token, once and within a time. Treat it as a credential.
    ///
    /// # Errors
    ///
    /// Returns an error if the system provides no random bytes.
    pub fn invite(&self, token: &str, within: Duration) -> Result<String, getrandom::Error> {
        let token = Fingerprint::from_content(token.as_bytes());
        let code = self.app.invitation.open(token, Instant::now() + within)?;
        Ok(self.app.site.links.invitation(&code))
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.identity.is_some()
    }

    /// Serves until `shutdown`. `reloads`, which is cancel safe, waits for the next trigger to reread the bootstrap file and
    /// the certificate. On shutdown, requests in progress are completed before probes stop and the database is closed.
    ///
    /// # Errors
    ///
    /// Returns [`Ended`] if a task ended early. The other tasks were shut down in order.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        mut reloads: impl AsyncFnMut() -> Option<()>,
    ) -> Result<(), Ended> {
        let drained = CancellationToken::new();
        let probed = Probed { app: self.app.clone(), shutdown: shutdown.clone() };
        let admin = runtime::admin::router(Arc::new(probed));
        let mut tasks = JoinSet::new();
        tasks.spawn(listener::serve(self.admin, None, admin, Bounds::PROBES, drained.clone()));
        tasks.spawn(maintenance::retention::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(maintenance::silence::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(maintenance::checkpoint::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(maintenance::database::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(identity::refresh::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(engine::queue::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(http::access_log::log_counts(self.app.clone(), shutdown.clone()));
        tasks.spawn(maintenance::token_use::run(self.app.clone(), shutdown.clone()));
        tasks.spawn(engine::notify::deliver(self.app.clone(), shutdown.clone()));
        let current = self.identity.as_ref().map(Identity::current);
        let renewal = Arc::new(Notify::new());
        if let Some(identity) = self.identity {
            let every = self.app.limits.certificate_interval;
            tasks.spawn(identity.reload_periodically(every, Arc::clone(&renewal), shutdown.clone()));
        }
        let router = http::routes::router(self.app.clone());
        let mut requests =
            tokio::spawn(listener::serve(self.listener, current, router, self.bounds, shutdown.clone()));
        let mut outcome = Ok(());
        loop {
            tokio::select! {
                served = &mut requests => {
                    outcome = outcome.and(served.map_err(Ended));
                    break;
                }
                Some(ended) = tasks.join_next(), if outcome.is_ok() && !shutdown.is_cancelled() => {
                    outcome = ended.map_err(Ended);
                    shutdown.cancel();
                }
                // `load` reads the file on a blocking thread, so a slow file delays nothing.
                Some(()) = reloads() => {
                    renewal.notify_one();
                    if let Some(path) = &self.bootstrap {
                        reload(&self.app, path).await;
                    }
                }
            }
        }
        // The API listener may have ended early.
        shutdown.cancel();
        drained.cancel();
        let ending = async {
            while let Some(ended) = tasks.join_next().await {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(ended.map_err(Ended));
            }
            if let Err(error) = return_leases(&self.app).await {
                tracing::debug!("failed to return leases: {}", error_causes::describe(&error));
            }
            if let Some(replica) = &self.app.replica_site {
                replica.store.close().await;
            }
            self.app.site.store.close().await;
        };
        if timeout(self.bounds.drain, ending).await.is_err() {
            tracing::warn!("failed to close the database within {:?}", self.bounds.drain);
        }
        outcome
    }
}

/// Lets another replica do the maintenance at once.
async fn return_leases(app: &App) -> Result<(), store::Error> {
    let mut transaction = app.site.store.write().await?;
    store::leases::give_back(&mut transaction, app.replica).await?;
    transaction.commit().await
}

async fn read_signing_key(path: PathBuf) -> Result<SigningKey, StartError> {
    let file = path.clone();
    let read = timeout(KEY_TIMEOUT, spawn_blocking(move || SigningKey::read(&file)));
    let Ok(Ok(key)) = read.await else { return Err(StartError::SigningKeyTimedOut(path)) };
    Ok(key?)
}

/// A task that ended early: it panicked, and the log has the panic.
#[derive(Debug, thiserror::Error)]
#[error("a task of the service ended early")]
pub struct Ended(#[source] JoinError);

async fn reload(app: &App, path: &std::path::Path) {
    match bootstrap::load(app, path).await {
        Ok(generation) => {
            tracing::info!(generation, "applied the bootstrap file, generation {generation}");
        }
        Err(error) => {
            tracing::error!("{}; the previous state stays in effect", error_causes::describe(&error));
        }
    }
}
