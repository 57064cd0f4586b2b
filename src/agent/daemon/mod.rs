//! The agent as a daemon: it watches, keeps the live set, and reports each environment whenever it
//! changes, and by heartbeat.
//!
//! `cli` runs it until a signal. Each watch and each environment has a task of its own; they share a
//! `Shared`, and `domain` decides all that there is to decide: what to ask the API server next
//! (`watch`), when to report (`cadence`), what came and went meanwhile (`witness`). Nothing here
//! retries, waits or gives up on its own.

mod environment_state;
mod health;
mod lookups;
mod metrics;
mod reporter;
mod shared;
mod timing;
mod watch_state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::timing::{Policy, Witnessing};

use self::health::Health;
use self::reporter::Reporter;
use self::shared::Shared;
use super::Plan;
use super::retry::seed;
use crate::api::Client;
use crate::cluster::Cluster;
use crate::domain::live::selection::{Scope, TooManyNamespaces};
use crate::process::listener::{self, Bounds};
use crate::process::{admin, metrics as registry};

/// What is said at the first signal.
pub const STOPPING: &str = "stopping: what is not reported yet is reported first";

/// Of the listener for probes and scrapes: few, short, and not waited for at the end.
const BOUNDS: Bounds = Bounds {
    headers: Duration::from_secs(10),
    stall: Duration::from_secs(10),
    linger: Duration::from_secs(1),
    connections: 32,
    drain: Duration::from_secs(1),
};

/// What the daemon is made of.
pub struct Setup {
    /// What to report.
    pub plan: Plan,
    /// Where pods come from.
    pub cluster: Cluster,
    /// Where reports go.
    pub client: Client,
    /// Where probes and metrics are served, if anywhere.
    pub listener: Option<TcpListener>,
    /// Whether pods are reported that came and went since the last report.
    pub witnessing: Witnessing,
    /// Its durations.
    pub policy: Policy,
}

/// The daemon cannot begin, or ended on its own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too many namespaces are named.
    #[error("the pods cannot be watched")]
    Scope(#[source] TooManyNamespaces),
    /// The address that was given is not one.
    #[error("the address of probes and metrics cannot be told")]
    Address(#[source] std::io::Error),
    /// A part of it panicked, and the log says how.
    #[error("a part of the agent ended on its own")]
    Ended(#[source] JoinError),
}

/// Watches and reports until `shutdown`, then sends what is not reported yet.
///
/// # Errors
///
/// [`Error`] where it cannot begin, or a part of it panicked; the others were told to end, and did.
pub async fn run(setup: Setup, shutdown: CancellationToken) -> Result<(), Error> {
    let Setup { plan, cluster, client, listener, witnessing, policy } = setup;
    let scope = Scope::covering(plan.environments.iter().map(|e| &e.selection)).map_err(Error::Scope)?;
    let address = listener.as_ref().map(TcpListener::local_addr).transpose().map_err(Error::Address)?;
    introduce(&plan, &scope, &cluster, &client, &policy, witnessing, address);
    let shared = Arc::new(Shared::new(&plan, &scope, client.clone(), witnessing, &policy));

    // What watches ends at the signal, what reports has a last word, and probes are answered meanwhile.
    let (mut watching, mut reporting, mut serving) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let (ending, served) = (CancellationToken::new(), CancellationToken::new());
    if let Some(listener) = listener {
        let mut registry = registry::registry();
        shared.metrics.register(&mut registry);
        let health = Health::new(Arc::clone(&shared), registry, policy.cadence.stale, shutdown.clone());
        let router = admin::router(Arc::new(health));
        serving.spawn(listener::serve(listener, None, router, BOUNDS, served.clone()));
    }
    for n in 0..shared.watches() {
        let (shared, cluster) = (Arc::clone(&shared), cluster.clone());
        let policy = policy.watch.clone();
        watching.spawn(async move {
            let of = shared.scope_of(n);
            cluster.watch_pods(of.as_ref(), policy, seed(), |heard| shared.hear(n, heard)).await;
        });
    }
    watching.spawn(lookups::look_up(Arc::clone(&shared), cluster.clone(), policy.lookup, policy.remind));
    for (n, name) in plan.environments.iter().map(|e| e.name.clone()).enumerate() {
        let reporter = Reporter::new(Arc::clone(&shared), n, name, client.clone(), &policy, seed());
        reporting.spawn(reporter.run(ending.clone()));
    }

    let outcome = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        Some(ended) = watching.join_next() => ended,
        Some(ended) = reporting.join_next() => ended,
        Some(ended) = serving.join_next() => ended,
    };
    shutdown.cancel();
    watching.shutdown().await;
    // What they heard last is part of the last word.
    ending.cancel();
    let mut outcome = outcome.map_err(Error::Ended);
    while let Some(ended) = reporting.join_next().await {
        outcome = outcome.and(ended.map_err(Error::Ended));
    }
    served.cancel();
    while let Some(ended) = serving.join_next().await {
        outcome = outcome.and(ended.map_err(Error::Ended));
    }
    if outcome.is_ok() {
        tracing::info!("stopped");
    }
    outcome
}

/// The effective configuration, in the first lines of the log.
fn introduce(
    plan: &Plan,
    scope: &Scope,
    cluster: &Cluster,
    client: &Client,
    policy: &Policy,
    witnessing: Witnessing,
    address: Option<SocketAddr>,
) {
    let environments: Vec<_> = plan.environments.iter().map(|e| e.name.as_str()).collect();
    let environments = environments.join(", ");
    let (interval, debounce) = (policy.cadence.interval, policy.cadence.debounce);
    let strictly = if witnessing == Witnessing::Off { ", strictly what runs" } else { "" };
    let (from, to, organization) = (cluster.url(), client.base_url(), client.organization().as_str());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), cluster = from, scope = %scope, environments,
        service = %to, organization, interval = interval.as_secs_f64(), debounce = debounce.as_secs_f64(),
        witness = witnessing == Witnessing::On,
        "supercargo {} watches {scope} at {from} and reports to {to}, organization {organization}: {environments}, \
         {debounce:?} after a change and every {interval:?}{strictly}",
        env!("CARGO_PKG_VERSION"),
    );
    if let Some(address) = address {
        tracing::info!(%address, "health and metrics on http://{address}");
    }
}
