//! `serve`: the compliance service itself, a file an operation.
//!
//! The command line opens it with a [`Setup`] and lets it run until it is told to stop. A handler
//! admits the caller, reads what was sent within its bounds, asks `domain` what follows, and has
//! `store` write it down; it decides nothing itself.

mod access;
pub(crate) mod addresses;
mod app;
pub mod bootstrap;
mod evaluation;
#[cfg(any(feature = "fuzzing", test))]
pub(crate) mod fuzzing;
mod http;
pub(crate) mod invitation;
mod limits;
mod maintenance;
pub mod notify;
mod operations;
mod pages;

pub use app::{Delivery, Policy};
pub use http::body::Pace;
pub use maintenance::clock::{Clock, Hand};
pub(crate) use maintenance::random;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::app::App;
use self::bootstrap::{Bootstrap, LoadError};
use self::http::links::Links;
use self::maintenance::admin::Probed;
use crate::domain::model::Fingerprint;
use crate::process::listener::{self, Bounds, ListenError};
use crate::process::tls::{self, Identity, TlsError};
use crate::process::{self, error_causes};
use crate::store::{self, DatabaseUrl, Patience, Store};

/// What a service is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where it listens for requests.
    pub listen: SocketAddr,
    /// What it proves with who it is, where requests come over TLS.
    pub tls: Option<tls::Files>,
    /// Where it listens for probes and scrapes, in the clear.
    pub admin_listen: SocketAddr,
    /// Where it keeps what it is told.
    pub database: DatabaseUrl,
    /// What it is told by a file.
    pub bootstrap: Option<PathBuf>,
    /// Where clients reach it; `None`: where it listens.
    pub public_url: Option<Url>,
    /// Its limits.
    pub policy: Policy,
    /// What time it is for it.
    pub clock: Clock,
    /// The limits of its connections.
    pub bounds: Bounds,
    /// How long it waits for its database.
    pub patience: Patience,
    /// The internal networks that notifications may go to.
    pub allowed_internal: Vec<IpNet>,
}

/// A service that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The database cannot be opened.
    #[error("{0} cannot be opened")]
    Store(DatabaseUrl, #[source] store::Error),
    /// The bootstrap file cannot be applied.
    #[error(transparent)]
    Bootstrap(#[from] LoadError),
    /// There is no organization, and nothing that would make one.
    #[error("the database holds no organization, so nobody could use the service")]
    Empty,
    /// The address that was given is not one.
    #[error("the address that the service listens on cannot be told")]
    Address(#[source] std::io::Error),
}

/// How many look at probes and metrics at once.
const PROBES: usize = 64;

/// A service that listens.
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
    /// Takes the addresses, reads the certificate and the bootstrap file, opens the database and applies that file.
    ///
    /// # Errors
    ///
    /// [`StartError`] for whichever of that fails.
    pub async fn start(setup: Setup) -> Result<Self, StartError> {
        let listener = listener::listen(setup.listen, " (--listen, SUPERCARGO_LISTEN)").await?;
        let by = " (--admin-listen, SUPERCARGO_ADMIN_LISTEN)";
        let admin = listener::listen(setup.admin_listen, by).await?;
        let address = listener.local_addr().map_err(StartError::Address)?;
        let admin_address = admin.local_addr().map_err(StartError::Address)?;
        let identity = match setup.tls {
            None => None,
            Some(files) => Some(Identity::load(files).await?),
        };
        // Before there is a database: a mistake in it leaves none behind.
        let bootstrap = match &setup.bootstrap {
            None => None,
            Some(path) => Some(Bootstrap::read(path).await?),
        };
        let scheme = if identity.is_some() { "https" } else { "http" };
        let failed = |error| StartError::Store(setup.database.clone(), error);
        let store = Store::open(&setup.database, setup.patience).await.map_err(failed)?;
        let public_url = setup.public_url.map_or_else(|| format!("{scheme}://{address}").parse(), Ok);
        let public_url = public_url.map_err(|e| StartError::Address(std::io::Error::other(e)))?;
        let links = Links::new(public_url, identity.is_some());
        let app = App::new(store, &setup.policy, setup.clock, links, setup.allowed_internal);
        if let Some(bootstrap) = bootstrap {
            app.metrics.loaded(Some(bootstrap::apply(&app, bootstrap).await?));
        } else if app.store.organizations().await.map_err(failed)? == 0 {
            return Err(StartError::Empty);
        }
        let bootstrap = setup.bootstrap;
        Ok(Self { app, listener, identity, admin, bootstrap, bounds: setup.bounds, address, admin_address })
    }

    /// Where it listens for requests.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for probes and scrapes.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// A link that signs in at the pages with this token, once and within a time. Who has it is who the token is for:
    /// it is to be told as a token is.
    ///
    /// # Errors
    ///
    /// Where the system gives no random bytes.
    pub fn invite(&self, token: &str, within: Duration) -> Result<String, getrandom::Error> {
        let token = Fingerprint::of(token.as_bytes());
        let code = self.app.invitation.open(token, Instant::now() + within)?;
        Ok(self.app.links.invitation(&code))
    }

    /// Whether requests come over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.identity.is_some()
    }

    /// Serves until `shutdown`; `reloads` says when to read the bootstrap file and the certificate again.
    /// Requests that are under way are finished, then probes are no longer answered, and the database is closed.
    ///
    /// # Errors
    ///
    /// [`Ended`] where a part of it ended on its own: the others were told to end, and did.
    pub async fn run(self, shutdown: CancellationToken, mut reloads: impl Reloads) -> Result<(), Ended> {
        let drained = CancellationToken::new();
        let probed = Probed { app: self.app.clone(), shutdown: shutdown.clone() };
        let admin = process::admin::router(Arc::new(probed));
        let mut beside = JoinSet::new();
        let bounds = Bounds { connections: PROBES, ..self.bounds };
        beside.spawn(listener::serve(self.admin, None, admin, bounds, drained.clone()));
        beside.spawn(maintenance::retention::keep(self.app.clone(), shutdown.clone()));
        beside.spawn(evaluation::expiry::keep(self.app.clone(), shutdown.clone()));
        beside.spawn(notify::deliver(self.app.clone(), shutdown.clone()));
        let current = self.identity.as_ref().map(Identity::current);
        let renewal = Arc::new(Notify::new());
        if let Some(identity) = self.identity {
            let every = self.app.policy.certificate_interval;
            beside.spawn(identity.keep(every, Arc::clone(&renewal), shutdown.clone()));
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
                Some(ended) = beside.join_next(), if outcome.is_ok() && !shutdown.is_cancelled() => {
                    outcome = ended.map_err(Ended);
                    shutdown.cancel();
                }
                // A file that is slow to read holds up nothing: `load` reads it on a thread of its own.
                true = reloads.next() => {
                    renewal.notify_one();
                    if let Some(path) = &self.bootstrap {
                        reload(&self.app, path).await;
                    }
                }
            }
        }
        // Where the requests' listener ended on its own, nobody has said so yet.
        shutdown.cancel();
        drained.cancel();
        let ending = async {
            while let Some(ended) = beside.join_next().await {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(ended.map_err(Ended));
            }
            self.app.store.close().await;
        };
        if timeout(self.bounds.drain, ending).await.is_err() {
            tracing::warn!(
                "the database did not let go within {:?}: it is left to itself",
                self.bounds.drain
            );
        }
        outcome
    }
}

/// A part of the service that ended on its own: it panicked, and the log says how.
#[derive(Debug, thiserror::Error)]
#[error("a part of the service ended on its own")]
pub struct Ended(#[source] JoinError);

/// Says when to read the bootstrap file and the certificate again.
pub trait Reloads {
    /// Waits for the next time; false where there is none.
    fn next(&mut self) -> impl Future<Output = bool> + Send;
}

impl Reloads for tokio::signal::unix::Signal {
    async fn next(&mut self) -> bool {
        self.recv().await.is_some()
    }
}

/// Whoever started the service says when.
impl Reloads for mpsc::Receiver<()> {
    async fn next(&mut self) -> bool {
        self.recv().await.is_some()
    }
}

async fn reload(app: &App, path: &std::path::Path) {
    match bootstrap::load(app, path).await {
        Ok(generation) => {
            app.metrics.loaded(Some(generation));
            tracing::info!(generation, "the bootstrap file was applied: generation {generation}");
        }
        Err(error) => {
            app.metrics.loaded(None);
            tracing::error!("{}; what was there stays", error_causes::said_once(&error).join(": "));
        }
    }
}
