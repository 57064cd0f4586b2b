//! A cluster as its API server shows it: it holds pods, lists them, and tells of their changes.
//!
//! Tests of the daemon change what it holds and how it misbehaves; its bytes, and what it does with a
//! resourceVersion, are those of Kubernetes 1.36, and its own tests hold them to the recorded ones. It
//! never imports what it tests.

mod answer;
mod ask;
mod decode;
mod faults;
mod history;
mod pod;
mod state;
mod stream;
mod tests;
mod wire;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use ask::Ask;
pub use faults::{Fault, Rule};
pub use history::Life;
pub use pod::{Pod, pod};
pub use state::Backup;
use state::State;

use super::reported::Reported;
use crate::fake::kube::{User, kubeconfig};
use crate::fake::{Seen, Server};

/// A right: a verb, a resource, and a namespace or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub verb: &'static str,
    pub resource: &'static str,
    pub namespace: Option<String>,
}

/// What an agent needs: to list and watch pods and to get namespaces, in one or in all.
pub fn grants(namespace: Option<&str>) -> Vec<Grant> {
    let rights = [("list", "pods"), ("watch", "pods"), ("get", "namespaces")];
    let grant = |(verb, resource)| Grant { verb, resource, namespace: namespace.map(str::to_owned) };
    rights.map(grant).into()
}

/// How it answers, whatever it holds.
struct Settings {
    rules: Vec<Rule>,
    asks: Vec<Ask>,
    misunderstood: Vec<String>,
    token: Option<String>,
    grants: Option<Vec<Grant>>,
    bookmarks_every: Duration,
    /// By how much sooner watches end; `None`: they do not.
    hastened: Option<u32>,
    is_muted: bool,
}

/// What its connections share.
pub struct Shared {
    state: Mutex<State>,
    settings: Mutex<Settings>,
    /// Marked when something happened.
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

    /// Keeps what was asked: the fault that it meets.
    fn note(&self, ask: &Ask) -> Option<Fault> {
        let mut settings = self.settings();
        settings.asks.push(ask.clone());
        settings.rules.iter().find_map(|rule| rule(ask))
    }
}

/// A cluster that is running.
pub struct Cluster {
    shared: Arc<Shared>,
    server: Server,
    authority: Option<String>,
}

impl Cluster {
    pub fn start() -> Self {
        let shared = Self::shared();
        let answering = Arc::clone(&shared);
        let server = Server::start(move |seen| answer::answer(&answering, seen));
        Self { shared, server, authority: None }
    }

    /// Over TLS.
    pub fn start_tls() -> Self {
        let authority = crate::fake::pki::Authority::new();
        let shared = Self::shared();
        let answering = Arc::clone(&shared);
        let server = Server::start_tls(authority.server(None), move |seen| answer::answer(&answering, seen));
        Self { shared, server, authority: Some(authority.pem()) }
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            state: Mutex::default(),
            settings: Mutex::new(Settings {
                rules: Vec::new(),
                asks: Vec::new(),
                misunderstood: Vec::new(),
                token: None,
                grants: None,
                // Once a minute, for an agent whose time runs a hundred times as fast, and some more.
                bookmarks_every: Duration::from_millis(300),
                hastened: Some(1),
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

    /// One that leads here, with the token that is asked for.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_at(&self.url())
    }

    /// The same by another way.
    pub fn kubeconfig_at(&self, url: &str) -> String {
        let token = self.shared.settings().token.clone();
        let user = token.as_deref().map_or(User::Nobody, User::Token);
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

    // What it holds.

    /// A new pod, and its namespace where that is not there.
    pub fn add(&self, pod: Pod) {
        self.add_all([pod]);
    }

    pub fn add_all(&self, pods: impl IntoIterator<Item = Pod>) {
        self.change(|state| pods.into_iter().for_each(|pod| state.add(pod)));
    }

    pub fn modify(&self, namespace: &str, name: &str, change: impl FnOnce(Pod) -> Pod) {
        self.change(|state| state.modify(&format!("{namespace}/{name}"), change));
    }

    /// It is gone at once, with one event.
    pub fn delete(&self, namespace: &str, name: &str) {
        self.change(|state| state.delete(&format!("{namespace}/{name}")));
    }

    /// These pods instead of those that are there, with nothing in between that a list could see. A pod
    /// whose name is in both stays as it is.
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
        self.change(|state| {
            state.others_write();
            state.namespaces.insert(name.to_owned());
        });
    }

    /// Its pods go with it.
    pub fn delete_namespace(&self, name: &str) {
        self.change(|state| {
            let pods: Vec<_> =
                State::select(&state.pods, Some(name), String::new()).map(|s| s.pod.key()).collect();
            for key in pods {
                state.delete(&key);
            }
            state.others_write();
            state.namespaces.remove(name);
        });
    }

    /// Forgets what was before: older continue tokens and resourceVersions have expired.
    pub fn compact(&self) {
        self.change(State::compact);
    }

    pub fn backup(&self) -> Backup {
        self.shared.state().backup()
    }

    /// Everything is again as it was, resourceVersions too; connections are dropped.
    pub fn restore_from_backup(&self, backup: Backup) {
        self.server.listen(false);
        self.change(|state| state.restore(backup));
        self.server.listen(true);
    }

    /// The same with resourceVersions that go on behind the last one, and none of those before known: so
    /// etcd's documentation wants it (`etcdutl snapshot restore --bump-revision --mark-compacted`).
    pub fn restore_from_backup_with_new_revisions(&self, backup: Backup) {
        self.server.listen(false);
        self.change(|state| {
            let last = state.revision;
            state.restore(backup);
            state.revision = last;
            state.compact();
        });
        self.server.listen(true);
    }

    /// How often a backup was restored.
    pub fn restores(&self) -> usize {
        self.shared.state().restores
    }

    // What is true of it.

    /// What a report of the namespaces that are taken has to say now.
    pub fn expected_report(&self, takes: impl Fn(&str) -> bool) -> BTreeSet<Reported> {
        self.shared.state().expected(takes)
    }

    /// The same, by an agent that sees the cluster for the first time: it does not know the digests that
    /// the kubelet forgot.
    pub fn expected_at_first_sight(&self, takes: impl Fn(&str) -> bool) -> BTreeSet<Reported> {
        self.shared.state().expected_at_first_sight(takes)
    }

    /// Every pod that ever was live.
    pub fn lives(&self) -> Vec<Life> {
        self.shared.state().lives()
    }

    /// Every pod, as it is.
    pub fn held(&self) -> Vec<Pod> {
        self.shared.state().pods.values().map(|stored| stored.pod.clone()).collect()
    }

    /// Keeps neither lives that are over nor what was before, as [`Cluster::compact`], for who runs for
    /// long. A watch that was told of all that happened loses nothing.
    pub fn forget(&self) {
        self.server.forget();
        self.shared.state().forget();
    }

    /// The latest resourceVersion.
    pub fn revision(&self) -> u64 {
        self.shared.state().revision
    }

    // How it answers.

    /// One more rule; the first that finds a fault is followed. It holds for requests from now on.
    pub fn misbehave(&self, rule: Rule) {
        self.set(|settings| settings.rules.push(rule));
    }

    /// No rule holds any longer, and nothing is muted.
    pub fn behave(&self) {
        self.set(|settings| {
            settings.rules.clear();
            settings.is_muted = false;
        });
    }

    /// Open watches, too, send nothing until it behaves: connections are half open.
    pub fn mute(&self) {
        self.set(|settings| settings.is_muted = true);
    }

    /// Drops all connections, as a restart does.
    pub fn restart(&self) {
        self.server.hang_up();
    }

    /// Refuses connections, having dropped those that there are, or takes them again.
    pub fn listen(&self, is_listening: bool) {
        self.server.listen(is_listening);
    }

    /// Ends every open watch in order.
    pub fn end_watches(&self) {
        self.shared.ended_watches.send_replace(());
    }

    /// Refuses whoever has another bearer token.
    pub fn require_token(&self, token: &str) {
        self.set(|settings| settings.token = Some(token.to_owned()));
    }

    /// Allows nothing else. Watches that are open go on, as those of Kubernetes do.
    pub fn allow_only(&self, grants: impl IntoIterator<Item = Grant>) {
        self.set(|settings| settings.grants = Some(grants.into_iter().collect()));
    }

    pub fn bookmarks_every(&self, period: Duration) {
        self.set(|settings| settings.bookmarks_every = period);
    }

    /// No watch ends by its `timeoutSeconds`.
    pub fn keep_watches_open(&self) {
        self.set(|settings| settings.hastened = None);
    }

    /// How much sooner a watch ends than its `timeoutSeconds` say.
    pub fn hasten_timeouts(&self, factor: u32) {
        self.set(|settings| settings.hastened = Some(factor));
    }

    // What was asked.

    /// Every request that was understood.
    pub fn asked(&self) -> Vec<Ask> {
        let settings = self.shared.settings();
        assert!(settings.misunderstood.is_empty(), "{:#?}", settings.misunderstood);
        settings.asks.clone()
    }

    /// How many requests were such as [`Ask::is_watch`].
    pub fn count(&self, is: impl Fn(&Ask) -> bool) -> usize {
        self.asked().iter().filter(|ask| is(ask)).count()
    }

    /// When pods were first asked for.
    pub fn first_asked(&self) -> Option<Instant> {
        self.asked().iter().find(|ask| ask.is_about_pods()).map(|ask| ask.at)
    }

    /// How many watches and streaming lists are open.
    pub fn open_watches(&self) -> usize {
        self.shared.open_watches.load(Ordering::SeqCst)
    }

    /// Every request as it came.
    pub fn requests(&self) -> Vec<Seen> {
        self.server.seen()
    }
}
