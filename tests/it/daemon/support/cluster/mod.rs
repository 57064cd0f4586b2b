//! A stateful fake API server: stores pods, lists them, and sends watch events.
//!
//! Tests of the daemon change its pods and inject faults. Its bytes and its handling of resourceVersions follow
//! Kubernetes 1.36; its own tests compare them with recorded responses. It imports nothing of the program.

mod decode;
mod faults;
mod history;
mod pod;
mod request;
mod responder;
mod state;
mod stream;
mod tests;
mod wire;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use faults::{Fault, Rule};
pub use history::Lifetime;
pub use pod::{Pod, pod};
pub use request::ApiRequest;
pub use state::Backup;
use state::State;

use crate::daemon::support::reported_pod::ReportedPod;
use crate::fake::kube::{User, kubeconfig};
use crate::fake::pki::Identity;
use crate::fake::{Request, Server};

/// A permission: verb, resource, and a namespace or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub verb: &'static str,
    pub resource: &'static str,
    pub namespace: Option<String>,
}

/// The agent's permissions in one namespace or all: list and watch pods, get namespaces.
pub fn grants(namespace: Option<&str>) -> Vec<Grant> {
    let permissions = [("list", "pods"), ("watch", "pods"), ("get", "namespaces")];
    let grant = |(verb, resource)| Grant { verb, resource, namespace: namespace.map(str::to_owned) };
    permissions.map(grant).into()
}

/// Settings that do not depend on the pods.
struct Settings {
    rules: Vec<Rule>,
    requests: Vec<ApiRequest>,
    unsupported: Vec<String>,
    token: Option<String>,
    certificate: Option<Vec<u8>>,
    grants: Option<Vec<Grant>>,
    bookmarks_every: Duration,
    /// Divisor of `timeoutSeconds`. With `None`, watches do not end.
    time_scale: Option<u32>,
    is_muted: bool,
}

/// State that connections share.
pub struct Shared {
    state: Mutex<State>,
    settings: Mutex<Settings>,
    /// Notified after each change.
    changed: watch::Sender<()>,
    ended_watches: watch::Sender<()>,
    open_watches: AtomicUsize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap()
    }

    /// Records a request and returns its fault.
    fn record(&self, request: &ApiRequest) -> Option<Fault> {
        let mut settings = self.settings();
        settings.requests.push(request.clone());
        settings.rules.iter().find_map(|rule| rule(request))
    }
}

/// A running cluster.
pub struct Cluster {
    shared: Arc<Shared>,
    server: Server,
    authority: Option<String>,
}

impl Cluster {
    pub fn start() -> Self {
        let shared = Self::shared();
        let responder = Arc::clone(&shared);
        let server = Server::start(move |request| responder::respond(&responder, request));
        Self { shared, server, authority: None }
    }

    /// Over TLS.
    pub fn start_tls() -> Self {
        let authority = crate::fake::pki::Authority::new();
        let shared = Self::shared();
        let responder = Arc::clone(&shared);
        let server = Server::start_tls(authority.host("api").server(), move |request| {
            responder::respond(&responder, request)
        });
        Self { shared, server, authority: Some(authority.pem()) }
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            state: Mutex::default(),
            settings: Mutex::new(Settings {
                rules: Vec::new(),
                requests: Vec::new(),
                unsupported: Vec::new(),
                token: None,
                certificate: None,
                grants: None,
                // About twice a minute at a time scale of 100.
                bookmarks_every: Duration::from_millis(300),
                time_scale: Some(1),
                is_muted: false,
            }),
            changed: watch::Sender::default(),
            ended_watches: watch::Sender::default(),
            open_watches: AtomicUsize::new(0),
        })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// A kubeconfig for this server, with the required token.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_at(&self.url())
    }

    /// The same with another URL.
    pub fn kubeconfig_at(&self, url: &str) -> String {
        let token = self.shared.settings().token.clone();
        let user = token.as_deref().map_or(User::Anonymous, User::Token);
        kubeconfig(url, self.authority.as_deref(), &user)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.shared.state());
        self.shared.changed.send_replace(());
        changed
    }

    fn set(&self, set: impl FnOnce(&mut Settings)) {
        set(&mut self.shared.settings());
        self.shared.changed.send_replace(());
    }

    // State.

    /// Adds a pod, and its namespace if it is missing.
    pub fn add(&self, pod: Pod) {
        self.add_all([pod]);
    }

    pub fn add_all(&self, pods: impl IntoIterator<Item = Pod>) {
        self.change(|state| pods.into_iter().for_each(|pod| state.add(pod)));
    }

    pub fn modify(&self, namespace: &str, name: &str, change: impl FnOnce(Pod) -> Pod) {
        self.change(|state| state.modify(&format!("{namespace}/{name}"), change));
    }

    /// Deletes a pod with one event.
    pub fn delete(&self, namespace: &str, name: &str) {
        self.change(|state| state.delete(&format!("{namespace}/{name}")));
    }

    /// Replaces all pods atomically. Pods whose name remains are not changed.
    pub fn replace_all(&self, pods: impl IntoIterator<Item = Pod>) {
        self.change(|state| {
            let pods: Vec<_> = pods.into_iter().collect();
            let names: BTreeSet<_> = pods.iter().map(Pod::key).collect();
            let gone: Vec<_> = state.pods.keys().filter(|key| !names.contains(*key)).cloned().collect();
            for key in gone {
                state.delete(&key);
            }
            for pod in pods {
                if !state.pods.contains_key(&pod.key()) {
                    state.add(pod);
                }
            }
        });
    }

    pub fn create_namespace(&self, name: &str) {
        self.label_namespace(name, &[]);
    }

    /// Sets the labels of a namespace, and creates it if it is missing.
    pub fn label_namespace(&self, name: &str, labels: &[&'static str]) {
        self.change(|state| state.set_labels(name, labels));
    }

    /// Deletes a namespace and its pods.
    pub fn delete_namespace(&self, name: &str) {
        self.change(|state| {
            let pods: Vec<_> =
                State::select(&state.pods, Some(name), String::new()).map(|s| s.pod.key()).collect();
            for key in pods {
                state.delete(&key);
            }
            state.delete_namespace(name);
        });
    }

    /// Compacts the history: older continue tokens and resourceVersions expire.
    pub fn compact(&self) {
        self.change(State::compact);
    }

    pub fn backup(&self) -> Backup {
        self.shared.state().backup()
    }

    /// Restores the state, including resourceVersions, and drops connections.
    pub fn restore_from_backup(&self, backup: Backup) {
        self.server.listen(false);
        self.change(|state| state.restore(backup));
        self.server.listen(true);
    }

    /// Number of restored backups.
    pub fn restores(&self) -> usize {
        self.shared.state().restores
    }

    // Expectations.

    /// The current expected report of the included namespaces.
    pub fn expected_report(&self, includes: impl Fn(&str) -> bool) -> BTreeSet<ReportedPod> {
        self.shared.state().expected(includes)
    }

    /// The same for an agent that has just started, and does not know digests that are missing after a reboot.
    pub fn expected_first_report(&self, includes: impl Fn(&str) -> bool) -> BTreeSet<ReportedPod> {
        self.shared.state().expected_first_report(includes)
    }

    /// The lifetimes of all pods.
    pub fn lifetimes(&self) -> Vec<Lifetime> {
        self.shared.state().lifetimes()
    }

    pub fn pods(&self) -> Vec<Pod> {
        self.shared.state().pods.values().map(|stored| stored.pod.clone()).collect()
    }

    /// The latest resourceVersion.
    pub fn revision(&self) -> u64 {
        self.shared.state().revision
    }

    // Faults.

    /// Adds a rule for future requests. The first rule that returns a fault applies.
    pub fn inject(&self, rule: Rule) {
        self.set(|settings| settings.rules.push(rule));
    }

    /// Removes all rules, and unmutes watches.
    pub fn clear_faults(&self) {
        self.set(|settings| {
            settings.rules.clear();
            settings.is_muted = false;
        });
    }

    /// Stops sending to all watches, including open ones, as on half-open connections.
    pub fn mute(&self) {
        self.set(|settings| settings.is_muted = true);
    }

    /// Drops all connections, as a restart does.
    pub fn restart(&self) {
        self.server.drop_connections();
    }

    /// Stops listening and drops all connections, or listens again.
    pub fn listen(&self, is_listening: bool) {
        self.server.listen(is_listening);
    }

    /// Ends all open watches cleanly.
    pub fn end_watches(&self) {
        self.shared.ended_watches.send_replace(());
    }

    /// Rejects other bearer tokens.
    pub fn require_token(&self, token: &str) {
        self.set(|settings| settings.token = Some(token.to_owned()));
    }

    /// Rejects other client certificates. Needs TLS.
    pub fn require_certificate(&self, identity: &Identity) {
        self.set(|settings| settings.certificate = Some(identity.der()));
    }

    /// Denies everything else. Open watches continue, as in Kubernetes.
    pub fn allow_only(&self, grants: impl IntoIterator<Item = Grant>) {
        self.set(|settings| settings.grants = Some(grants.into_iter().collect()));
    }

    pub fn bookmarks_every(&self, period: Duration) {
        self.set(|settings| settings.bookmarks_every = period);
    }

    /// Ignores `timeoutSeconds`.
    pub fn keep_watches_open(&self) {
        self.set(|settings| settings.time_scale = None);
    }

    /// Sets the divisor of `timeoutSeconds`.
    pub fn scale_timeouts(&self, factor: u32) {
        self.set(|settings| settings.time_scale = Some(factor));
    }

    // Requests.

    /// All requests. Asserts that each was supported.
    pub fn api_requests(&self) -> Vec<ApiRequest> {
        let settings = self.shared.settings();
        assert!(settings.unsupported.is_empty(), "{:#?}", settings.unsupported);
        settings.requests.clone()
    }

    /// Number of requests that match, for example [`ApiRequest::is_watch`].
    pub fn count(&self, matches: impl Fn(&ApiRequest) -> bool) -> usize {
        self.api_requests().iter().filter(|request| matches(request)).count()
    }

    /// Time of the first list or watch.
    pub fn first_request(&self) -> Option<Instant> {
        self.api_requests().iter().find(|request| request.is_about_pods()).map(|request| request.at)
    }

    /// Number of open watches and streaming lists.
    pub fn open_watches(&self) -> usize {
        self.shared.open_watches.load(Ordering::SeqCst)
    }

    /// All HTTP requests.
    pub fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }
}
