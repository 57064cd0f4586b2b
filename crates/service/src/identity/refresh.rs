//! The task that refreshes keys and endpoints of issuers. Only this task requests them; `sign_in` requests ID tokens.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::identity::cause;
use crate::identity::discovery::{self, DiscoveryError, TIMEOUT};
use crate::identity::remote_keys::RemoteKeys;
use crate::outbound::GuardedClient;
use model::escape::Escaped;
use runtime::error_causes::describe;

/// Interval of the search for keys to refresh, besides those that requests want.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Refreshes keys until `shutdown`. Issuers do not wait for each other.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut interval = interval(CHECK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut refreshing = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = interval.tick() => {}
            () = app.identities.remote.wake.notified() => {}
            Some(ended) = refreshing.join_next() => match ended {
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                _ => continue,
            },
        }
        if let Err(error) = app.identities.load(&app.site.store).await {
            // Known issuers stay in use.
            tracing::warn!("failed to read issuers from the database: {}", describe(&error));
        }
        for keys in app.identities.remote.all() {
            if keys.start_if_due(app.site.now()) {
                refreshing.spawn(refresh(app.clone(), keys));
            }
        }
    }
}

/// Requests the keys of an issuer, with the certificate authorities of the current bootstrap file.
async fn refresh(app: App, keys: Arc<RemoteKeys>) {
    let requested = match GuardedClient::new(&app.allowed_internal, &app.addresses.current().authorities) {
        Ok(client) => timeout(TIMEOUT, discovery::discover(&client, &keys.url))
            .await
            .unwrap_or(Err(DiscoveryError::TimedOut(TIMEOUT))),
        Err(error) => Err(DiscoveryError::Client(error)),
    };
    let (url, organization) = (Escaped(&keys.url), &keys.organization);
    match requested {
        Ok((set, max_age)) => {
            let known = keys.current(app.site.now());
            let known = known.as_ref().map_or(&[][..], |known| known.keys.problems());
            for problem in set.keys.problems().iter().filter(|problem| !known.contains(problem)) {
                tracing::warn!("issuer \"{url}\" of {organization}: {problem}");
            }
            if keys.succeeded(set, max_age, app.site.now()) {
                tracing::info!("refreshed the keys of issuer \"{url}\" of {organization} again");
            }
        }
        Err(error) => {
            let cause = cause(&error);
            if keys.failed(&cause) {
                tracing::warn!("failed to refresh the keys of issuer \"{url}\" of {organization}: {cause}");
            }
        }
    }
}
