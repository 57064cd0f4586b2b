//! The agent as a daemon: watches pods and reports each environment on change and by heartbeat.
//!
//! Run by `cli` until a signal. Each watch and each environment has its own task; `Shared` connects them.
//! All decisions are made in `live`: the next request (`watch`), when to report (`cadence`), and which
//! ended pods to report (`departed_pods`).
//!
//! One thread runs all tasks. The first signal stops the watches; then the reporters send a last report. A panic in any
//! task has the same effect, and a live set that may be inconsistent is not reported.

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

use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::timing::{DaemonTiming, TrackDeparted};

use self::health::Health;
use self::reporter::EnvironmentReporter;
use self::shared::Shared;
use self::watch_state::WatchTarget;
use super::Plan;
use crate::cluster::Cluster;
use crate::live::selection::{Scope, TooManyNamespaces};
use client::{Client, seed};
use runtime::listener::{self, Bounds};
use runtime::{admin, metrics as registry};

/// Logged at the first signal.
pub const SHUTTING_DOWN: &str = "shutting down: sending unreported changes first";

pub struct Setup {
    pub plan: Plan,
    pub cluster: Cluster,
    pub client: Client,
    /// Listener for probes and metrics.
    pub listener: Option<TcpListener>,
    pub track_departed: TrackDeparted,
    pub timing: DaemonTiming,
}

/// The daemon failed to start, or one of its tasks ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to watch pods")]
    Scope(#[source] TooManyNamespaces),
    #[error("failed to read the address of the listener for probes and metrics")]
    Address(#[source] std::io::Error),
    /// A task panicked; the log has the message.
    #[error("a task of the agent ended unexpectedly")]
    Ended(#[source] JoinError),
}

/// Watches and reports until `shutdown`, then reports the remaining changes.
///
/// # Errors
///
/// [`Error`] if the daemon cannot start, or after a panic; all other tasks have shut down then.
pub async fn run(setup: Setup, shutdown: CancellationToken) -> Result<(), Error> {
    let Setup { plan, cluster, client, listener, track_departed, timing } = setup;
    let scope = Scope::covering(plan.environments.iter().map(|e| &e.selection)).map_err(Error::Scope)?;
    let address = listener.as_ref().map(TcpListener::local_addr).transpose().map_err(Error::Address)?;
    log_configuration(&plan, &scope, &cluster, &client, &timing, track_departed, address);
    let mut registry = registry::registry();
    let shared = Shared::new(&plan, &scope, client.clone(), track_departed, &timing, &mut registry);
    let shared = Arc::new(shared);

    // Shutdown order: watches at once, then reporters after their last report, then the listener.
    let (mut watching, mut reporting, mut serving) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let (ending, served) = (CancellationToken::new(), CancellationToken::new());
    if let Some(listener) = listener {
        let health = Health::new(Arc::clone(&shared), registry, timing.cadence.stale_after, shutdown.clone());
        let router = admin::router(Arc::new(health));
        serving.spawn(listener::serve(listener, None, router, Bounds::PROBES, served.clone()));
    }
    for (n, target) in shared.targets().into_iter().enumerate() {
        let (shared, cluster) = (Arc::clone(&shared), cluster.clone());
        let timing = timing.watch.clone();
        watching.spawn(async move {
            match target {
                WatchTarget::Pods(scope) => {
                    cluster.watch_pods(scope.as_ref(), timing, seed(), |event| shared.apply(n, event)).await
                }
                WatchTarget::Namespaces => {
                    cluster.watch_namespaces(timing, seed(), |event| shared.apply_namespace(n, event)).await
                }
            };
        });
    }
    watching.spawn(lookups::run(
        Arc::clone(&shared),
        cluster.clone(),
        timing.lookup_interval,
        timing.reminder_interval,
    ));
    for (n, environment) in plan.environments.iter().enumerate() {
        let reporter =
            EnvironmentReporter::new(Arc::clone(&shared), n, environment, client.clone(), &timing, seed());
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
    // Only now, so that the last report contains the last events.
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

fn log_configuration(
    plan: &Plan,
    scope: &Scope,
    cluster: &Cluster,
    client: &Client,
    timing: &DaemonTiming,
    track_departed: TrackDeparted,
    address: Option<SocketAddr>,
) {
    let environments: Vec<_> = plan.environments.iter().map(|e| e.name.as_str()).collect();
    let environments = environments.join(", ");
    let (interval, debounce) = (timing.cadence.interval, timing.cadence.debounce);
    let running_only = if track_departed == TrackDeparted::Off { ", running pods only" } else { "" };
    let (from, to, organization) = (cluster.url(), client.base_url(), client.organization().as_str());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), cluster = from, scope = %scope, environments,
        service = %to, organization, interval = interval.as_secs_f64(), debounce = debounce.as_secs_f64(),
        departed_pods = track_departed == TrackDeparted::On,
        "supercargo {} watches {scope} at {from} and reports to {to}, organization {organization}: {environments}, \
         {debounce:?} after a change and every {interval:?}{running_only}",
        env!("CARGO_PKG_VERSION"),
    );
    if let Some(address) = address {
        tracing::info!(%address, "serving probes and metrics on http://{address}");
    }
}
