//! State of the cluster: pods, events, and lifetimes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::daemon::support::cluster::history::{Lifetime, Lifetimes, SentFlag};
use crate::daemon::support::cluster::pod::Pod;
use crate::daemon::support::cluster::wire;
use crate::daemon::support::reported_pod::ReportedPod;

/// A pod at one resourceVersion.
pub struct Stored {
    pub pod: Pod,
    pub resource_version: u64,
    pub bytes: Bytes,
    /// The last image and digest of each container since the pod was created.
    remembered: BTreeMap<String, (String, String)>,
    /// Set when the pod is sent to a client while it is live.
    sent: Option<Arc<SentFlag>>,
}

impl Stored {
    /// Records that the pod was sent to a client.
    pub fn mark_sent(&self) {
        if let Some(sent) = &self.sent {
            sent.mark_sent();
        }
    }
}

/// Pods by `namespace/name`, in the list order of an API server.
pub type Pods = BTreeMap<String, Arc<Stored>>;

/// A watch event.
#[derive(Clone)]
pub struct Event {
    pub revision: u64,
    pub kind: &'static str,
    pub stored: Arc<Stored>,
}

/// A backup of etcd.
#[derive(Clone)]
pub struct Backup {
    pods: Arc<Pods>,
    namespaces: Namespaces,
    revision: u64,
}

/// Namespaces and their labels.
pub type Namespaces = BTreeMap<String, Vec<&'static str>>;

pub struct State {
    pub pods: Arc<Pods>,
    pub namespaces: Namespaces,
    /// Frames of a watch for namespaces, with their resourceVersions.
    pub namespace_events: Vec<(u64, Bytes)>,
    /// The latest resourceVersion.
    pub revision: u64,
    /// Older events were discarded.
    pub compacted: u64,
    pub events: Vec<Event>,
    /// The pods for continue tokens that have not expired.
    pub snapshots: BTreeMap<u64, Arc<Pods>>,
    pub lifetimes: Lifetimes,
    /// Number of restored backups.
    pub restores: usize,
    created: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            pods: Arc::default(),
            namespaces: ["default", "kube-system"].map(|name| (name.to_owned(), Vec::new())).into(),
            namespace_events: Vec::new(),
            revision: 300,
            compacted: 0,
            events: Vec::new(),
            snapshots: BTreeMap::new(),
            lifetimes: Lifetimes::default(),
            restores: 0,
            created: 0,
        }
    }
}

impl State {
    pub fn add(&mut self, mut pod: Pod) {
        assert!(!self.pods.contains_key(&pod.key()), "{} already exists", pod.key());
        self.created += 1;
        if pod.uid.is_empty() {
            pod.uid = format!("{:08x}-5a6b-4c2e-9f00-{:012x}", self.created, self.created);
        }
        if pod.created == 0 {
            pod.created = 1_795_257_028 + i64::from(self.created);
        }
        if !self.namespaces.contains_key(&pod.namespace) {
            self.set_labels(&pod.namespace, &[]);
        }
        self.record("ADDED", pod);
    }

    /// Sets the labels of a namespace, and creates it if it is missing.
    pub fn set_labels(&mut self, name: &str, labels: &[&'static str]) {
        self.advance_revision();
        let before = self.namespaces.insert(name.to_owned(), labels.to_vec());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        let event = wire::namespace_event(kind, name, labels, self.revision);
        self.namespace_events.push((self.revision, event));
    }

    pub fn delete_namespace(&mut self, name: &str) {
        self.advance_revision();
        if let Some(labels) = self.namespaces.remove(name) {
            let event = wire::namespace_event("DELETED", name, &labels, self.revision);
            self.namespace_events.push((self.revision, event));
        }
    }

    pub fn modify(&mut self, key: &str, change: impl FnOnce(Pod) -> Pod) {
        let before = self.pods.get(key).unwrap_or_else(|| panic!("no pod {key}"));
        let after = change(before.pod.clone());
        assert_eq!(
            (after.key(), &after.uid),
            (key.to_owned(), &before.pod.uid),
            "delete and add instead of changing name or UID"
        );
        self.record("MODIFIED", after);
    }

    pub fn delete(&mut self, key: &str) {
        let before = self.pods.get(key).unwrap_or_else(|| panic!("no pod {key}"));
        let pod = before.pod.clone().being_deleted();
        self.record("DELETED", pod);
    }

    fn record(&mut self, kind: &'static str, pod: Pod) {
        self.revision += 1;
        let key = pod.key();
        let before = self.pods.get(&key);
        let mut remembered = before.map(|stored| stored.remembered.clone()).unwrap_or_default();
        remembered.extend(pod.running());
        let mut stored = Stored {
            bytes: wire::encode(&pod, self.revision),
            resource_version: self.revision,
            sent: None,
            remembered,
            pod,
        };
        let is_live = kind != "DELETED" && !stored.remembered.is_empty() && !stored.pod.is_ended();
        let open = before.and_then(|before| before.sent.clone());
        // The deletion of an ended pod starts no new lifetime.
        let has_ended = open.is_none() && before.is_some_and(|before| !before.remembered.is_empty());
        if is_live || !has_ended {
            let versions = [reported(&stored), to_reported(&stored.pod, &stored.pod.running())];
            stored.sent = self.lifetimes.change(open, is_live, versions, Instant::now());
        }
        let stored = Arc::new(stored);
        let pods = Arc::make_mut(&mut self.pods);
        if kind == "DELETED" {
            pods.remove(&key);
        } else {
            pods.insert(key, Arc::clone(&stored));
        }
        self.events.push(Event { revision: self.revision, kind, stored });
    }

    /// Simulates writes to other objects.
    pub fn advance_revision(&mut self) {
        self.revision += 1;
    }

    pub fn compact(&mut self) {
        self.advance_revision();
        self.compacted = self.revision;
        self.snapshots.clear();
    }

    pub fn backup(&self) -> Backup {
        Backup { pods: Arc::clone(&self.pods), namespaces: self.namespaces.clone(), revision: self.revision }
    }

    pub fn restore(&mut self, backup: Backup) {
        self.restores += 1;
        let now = Instant::now();
        for (key, stored) in self.pods.iter() {
            let is_kept = backup.pods.get(key).is_some_and(|backup| Arc::ptr_eq(backup, stored));
            if !is_kept && stored.sent.is_some() {
                self.lifetimes.change(stored.sent.clone(), false, [], now);
            }
        }
        let lost = std::mem::replace(&mut self.pods, backup.pods);
        self.namespaces = backup.namespaces;
        self.revision = backup.revision;
        self.compacted = self.compacted.min(backup.revision);
        self.events.retain(|event| event.revision <= backup.revision);
        self.namespace_events.retain(|(revision, _)| *revision <= backup.revision);
        self.snapshots.retain(|revision, _| *revision <= backup.revision);
        let pods = Arc::make_mut(&mut self.pods);
        for (key, stored) in pods.iter_mut() {
            let was_kept = lost.get(key).is_some_and(|lost| Arc::ptr_eq(lost, stored));
            if !was_kept && stored.sent.is_some() {
                let sent = self.lifetimes.change(None, true, [reported(stored)], now);
                let Stored { pod, resource_version, bytes, remembered, .. } = &**stored;
                *stored = Arc::new(Stored {
                    pod: pod.clone(),
                    resource_version: *resource_version,
                    bytes: bytes.clone(),
                    remembered: remembered.clone(),
                    sent,
                });
            }
        }
    }

    /// The pods of a namespace, or all, starting at a key.
    pub fn select<'a>(
        pods: &'a Pods,
        namespace: Option<&'a str>,
        from: String,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let is_selected =
            move |stored: &&Arc<Stored>| namespace.is_none_or(|name| stored.pod.namespace == name);
        pods.range(from..).map(|(_, stored)| stored).filter(is_selected)
    }

    /// The expected report of the included namespaces.
    pub fn expected(&self, includes: impl Fn(&str) -> bool) -> BTreeSet<ReportedPod> {
        let is_live = |stored: &&Arc<Stored>| stored.sent.is_some() && includes(&stored.pod.namespace);
        self.pods.values().filter(is_live).map(|stored| reported(stored)).collect()
    }

    /// The same for a new agent, which does not know digests that are missing after a reboot.
    pub fn expected_first_report(&self, includes: impl Fn(&str) -> bool) -> BTreeSet<ReportedPod> {
        let pods = self.pods.values().map(|stored| &stored.pod).filter(|pod| includes(&pod.namespace));
        let live = pods.filter(|pod| !pod.is_ended() && !pod.running().is_empty());
        live.map(|pod| to_reported(pod, &pod.running())).collect()
    }

    pub fn lifetimes(&self) -> Vec<Lifetime> {
        self.lifetimes.all()
    }
}

fn reported(stored: &Stored) -> ReportedPod {
    to_reported(&stored.pod, &stored.remembered)
}

/// Appends the digest to image names with several digests.
fn to_reported(pod: &Pod, running: &BTreeMap<String, (String, String)>) -> ReportedPod {
    let images: BTreeSet<_> = running.values().collect();
    let has_others =
        |image: &str, digest: &str| images.iter().any(|(name, other)| name == image && other != digest);
    let name = |image: &str, digest: &str| {
        if has_others(image, digest) { format!("{image}@sha256:{digest}") } else { image.to_owned() }
    };
    ReportedPod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        created: pod.created,
        digests: images.iter().map(|(image, digest)| (name(image, digest), digest.clone())).collect(),
    }
}
