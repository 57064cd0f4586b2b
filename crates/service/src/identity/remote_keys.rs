//! The keys of issuers that the service requests over HTTP: when to refresh them, and how long they may be used.
//!
//! Requests read keys here. Only the task in `refresh` changes them, so that a slow issuer delays nothing but requests
//! that need a new key of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;
use url::Url;

use crate::identity::key_set::KeySet;
use model::Timestamp;
use model::failure_log::{FailureLog, LogAction};

/// Minimum time between two attempts to refresh the keys of an issuer.
pub(crate) const MIN_INTERVAL: Duration = Duration::from_mins(1);

/// Bounds and default of the `max-age` of a response. A revoked key is accepted for the upper bound at most.
pub(crate) const MAX_AGE: Duration = Duration::from_hours(1);
pub(crate) const DEFAULT_AGE: Duration = Duration::from_mins(5);

/// Keys are used for this time after the last successful refresh.
const MAX_USE: Duration = Duration::from_hours(24);

/// Requests and sign-ins that wait for one issuer at a time. Anybody may cause them, and each holds a permit of all
/// requests.
pub(crate) const MAX_WAITING: usize = 64;

/// Timeout of a request that waits for new keys. Longer than a refresh takes.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(12);

/// Interval between log lines while an issuer fails.
const REMINDER_INTERVAL: Duration = Duration::from_hours(1);

/// All issuers whose keys are requested over HTTP, by organization and URL.
#[derive(Default)]
pub(crate) struct RemoteKeyRegistry {
    issuers: Mutex<BTreeMap<(String, String), Weak<RemoteKeys>>>,
    /// Notified when keys are wanted.
    pub(crate) wake: Notify,
}

pub(crate) struct RemoteKeys {
    pub(crate) organization: String,
    pub(crate) url: String,
    state: Mutex<State>,
    /// Changes after each refresh.
    refreshed: watch::Sender<()>,
    waiting: Semaphore,
}

/// The result of a refresh.
pub(crate) struct Discovered {
    pub(crate) keys: KeySet,
    pub(crate) endpoints: Endpoints,
}

/// Where people sign in and out, if the issuer is a provider for people.
pub(crate) struct Endpoints {
    pub(crate) authorization: Option<Url>,
    pub(crate) token: Option<Url>,
    /// The page that ends the session at the provider.
    pub(crate) end_session: Option<Url>,
}

struct State {
    /// The keys and endpoints, and when they were requested.
    keys: Option<(Arc<Discovered>, Timestamp)>,
    max_age: Duration,
    attempted_at: Option<Timestamp>,
    is_refreshing: bool,
    is_wanted: bool,
    failures: FailureLog,
}

impl RemoteKeyRegistry {
    /// The keys of an issuer, which all users of it share. They are refreshed until the last user drops them.
    pub(crate) fn get(&self, organization: &str, url: &str) -> Arc<RemoteKeys> {
        let mut issuers = self.lock();
        let key = (organization.to_owned(), url.to_owned());
        if let Some(keys) = issuers.get(&key).and_then(Weak::upgrade) {
            return keys;
        }
        let keys = Arc::new(RemoteKeys::new(organization, url));
        issuers.insert(key, Arc::downgrade(&keys));
        self.wake.notify_one();
        keys
    }

    /// All issuers in use.
    pub(crate) fn all(&self) -> Vec<Arc<RemoteKeys>> {
        let mut issuers = self.lock();
        issuers.retain(|_, keys| keys.strong_count() > 0);
        issuers.values().filter_map(Weak::upgrade).collect()
    }

    /// Organization and URL of each issuer, and whether the last refresh of its keys failed.
    pub(crate) fn statuses(&self) -> Vec<(String, String, bool)> {
        let status = |keys: Arc<RemoteKeys>| {
            (keys.organization.clone(), keys.url.clone(), keys.lock().failures.message().is_some())
        };
        self.all().into_iter().map(status).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Weak<RemoteKeys>>> {
        self.issuers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteKeys {
    fn new(organization: &str, url: &str) -> Self {
        let state = State {
            keys: None,
            max_age: Duration::ZERO,
            attempted_at: None,
            is_refreshing: false,
            is_wanted: true,
            failures: FailureLog::new(REMINDER_INTERVAL),
        };
        Self {
            organization: organization.to_owned(),
            url: url.to_owned(),
            state: Mutex::new(state),
            refreshed: watch::Sender::new(()),
            waiting: Semaphore::new(MAX_WAITING),
        }
    }

    /// The keys and endpoints; `None` before the first successful refresh, and a day after the last one.
    pub(crate) fn current(&self, now: Timestamp) -> Option<Arc<Discovered>> {
        let state = self.lock();
        let (keys, at) = state.keys.as_ref()?;
        (now.distance(*at) < MAX_USE).then(|| Arc::clone(keys))
    }

    /// Waits until keys were refreshed, for a token whose key is unknown. Returns false at once if the last refresh is too
    /// recent for another one.
    pub(crate) async fn refreshed(
        &self,
        registry: &RemoteKeyRegistry,
        now: Timestamp,
    ) -> Result<bool, store::Error> {
        const SLOW: store::Error =
            store::Error::Busy("the issuer of this token does not respond; it is requested again");
        let mut refreshed = self.refreshed.subscribe();
        {
            let mut state = self.lock();
            if !state.is_refreshing {
                if state.attempted_recently(now) {
                    return Ok(false);
                }
                state.is_wanted = true;
            }
        }
        let _permit = self.wait()?;
        registry.wake.notify_one();
        timeout(MAX_WAIT, refreshed.changed()).await.map_err(|_| SLOW)?.map_err(|_| SLOW)?;
        Ok(true)
    }

    /// Asks for a refresh, unless the last one is too recent for another one.
    pub(crate) fn want(&self, registry: &RemoteKeyRegistry, now: Timestamp) {
        let mut state = self.lock();
        if !state.is_refreshing && !state.attempted_recently(now) {
            state.is_wanted = true;
            registry.wake.notify_one();
        }
    }

    /// The permit to wait for the issuer: for new keys, or for the ID token of a sign-in.
    pub(crate) fn wait(&self) -> Result<SemaphorePermit<'_>, store::Error> {
        const LIMIT: store::Error = store::Error::Busy("too many requests wait for this issuer");
        self.waiting.try_acquire().map_err(|_| LIMIT)
    }

    /// Starts a refresh if one is due. The caller must end it.
    pub(crate) fn start_if_due(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        let is_old = state.keys.as_ref().is_none_or(|(_, at)| now.distance(*at) >= state.max_age);
        let is_due = state.is_wanted || is_old || state.failures.message().is_some();
        if state.is_refreshing || !is_due || state.attempted_recently(now) {
            return false;
        }
        (state.is_refreshing, state.is_wanted, state.attempted_at) = (true, false, Some(now));
        true
    }

    /// Ends a refresh with new keys and their maximum age. Returns whether it had failed before.
    pub(crate) fn succeeded(&self, keys: Discovered, max_age: Duration, now: Timestamp) -> bool {
        let mut state = self.lock();
        state.keys = Some((Arc::new(keys), now));
        state.max_age = max_age.clamp(MIN_INTERVAL, MAX_AGE);
        let has_recovered = state.failures.recovered(Instant::now()).is_some();
        self.end(state);
        has_recovered
    }

    /// Ends a refresh that failed. Returns whether to log it.
    pub(crate) fn failed(&self, cause: &str) -> bool {
        let mut state = self.lock();
        let action = state.failures.failed(cause, Instant::now());
        self.end(state);
        action != LogAction::Suppress
    }

    fn end(&self, mut state: MutexGuard<'_, State>) {
        state.is_refreshing = false;
        drop(state);
        self.refreshed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn attempted_recently(&self, now: Timestamp) -> bool {
        self.attempted_at.is_some_and(|at| now.distance(at) < MIN_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn requests_and_sign_ins_that_wait_for_an_issuer_are_limited() {
        let (registry, now) = (RemoteKeyRegistry::default(), Timestamp::from_micros(0));
        let [slow, other] = ["slow", "other"].map(|name| registry.get("acme", name));
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| slow.wait().unwrap()).collect();
        assert!(slow.wait().is_err(), "a sign-in");
        let rejected = slow.refreshed(&registry, now).now_or_never();
        assert!(rejected.is_some_and(|refreshed| refreshed.is_err()), "a request with an unknown key");
        assert!(other.wait().is_ok());
        drop(waiting);
        assert!(slow.refreshed(&registry, now).now_or_never().is_none(), "it waits");
    }
}
