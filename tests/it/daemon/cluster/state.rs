//! What a cluster holds: pods, the events that led there, and what was true when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::history::{Life, Lives, Told};
use super::pod::Pod;
use super::wire;
use crate::daemon::reported::Reported;

/// A pod as it was at one resourceVersion.
pub struct Stored {
    pub pod: Pod,
    pub resource_version: u64,
    pub bytes: Bytes,
    /// The image and the last digest of each container since the pod is there.
    remembered: BTreeMap<String, (String, String)>,
    /// Whether anybody was told of the pod while it was live.
    told: Option<Arc<Told>>,
}

impl Stored {
    /// Somebody is told of it.
    pub fn tell(&self) {
        if let Some(told) = &self.told {
            told.tell();
        }
    }
}

/// By `namespace/name`, which is the order of an API server.
pub type Pods = BTreeMap<String, Arc<Stored>>;

/// What happened to a pod.
#[derive(Clone)]
pub struct Event {
    pub revision: u64,
    pub kind: &'static str,
    pub stored: Arc<Stored>,
}

/// What a backup of etcd holds.
#[derive(Clone)]
pub struct Backup {
    pods: Arc<Pods>,
    namespaces: BTreeSet<String>,
    revision: u64,
}

pub struct State {
    pub pods: Arc<Pods>,
    pub namespaces: BTreeSet<String>,
    /// The latest resourceVersion.
    pub revision: u64,
    /// Nothing older is known.
    pub compacted: u64,
    pub log: Vec<Event>,
    /// What a continue token still leads to.
    pub snapshots: BTreeMap<u64, Arc<Pods>>,
    pub lives: Lives,
    /// How often a backup was restored.
    pub restores: usize,
    born: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            pods: Arc::default(),
            namespaces: ["default", "kube-system"].map(str::to_owned).into(),
            revision: 300,
            compacted: 0,
            log: Vec::new(),
            snapshots: BTreeMap::new(),
            lives: Lives::default(),
            restores: 0,
            born: 0,
        }
    }
}

impl State {
    pub fn add(&mut self, mut pod: Pod) {
        assert!(!self.pods.contains_key(&pod.key()), "{} is there", pod.key());
        self.born += 1;
        if pod.uid.is_empty() {
            pod.uid = format!("{:08x}-5a6b-4c2e-9f00-{:012x}", self.born, self.born);
        }
        if pod.created == 0 {
            pod.created = 1_795_257_028 + i64::from(self.born);
        }
        self.namespaces.insert(pod.namespace.clone());
        self.record("ADDED", pod);
    }

    pub fn modify(&mut self, key: &str, change: impl FnOnce(Pod) -> Pod) {
        let before = self.pods.get(key).unwrap_or_else(|| panic!("no pod {key}"));
        let after = change(before.pod.clone());
        assert_eq!(
            (after.key(), &after.uid),
            (key.to_owned(), &before.pod.uid),
            "it is another pod: delete and add"
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
            told: None,
            remembered,
            pod,
        };
        let is_live = kind != "DELETED" && !stored.remembered.is_empty() && !stored.pod.is_ended();
        let open = before.and_then(|before| before.told.clone());
        // One that ended, and is deleted, has had its life.
        let had_one = open.is_none() && before.is_some_and(|before| !before.remembered.is_empty());
        if is_live || !had_one {
            let versions = [reported(&stored), line(&stored.pod, &stored.pod.running())];
            stored.told = self.lives.change(open, is_live, versions, Instant::now());
        }
        let stored = Arc::new(stored);
        let pods = Arc::make_mut(&mut self.pods);
        if kind == "DELETED" {
            pods.remove(&key);
        } else {
            pods.insert(key, Arc::clone(&stored));
        }
        self.log.push(Event { revision: self.revision, kind, stored });
    }

    /// Whatever is written besides pods.
    pub fn others_write(&mut self) {
        self.revision += 1;
    }

    pub fn compact(&mut self) {
        self.others_write();
        self.compacted = self.revision;
        self.snapshots.clear();
    }

    /// Forgets all but the pods and their lives.
    pub fn forget(&mut self) {
        self.compacted = self.log.last().map_or(self.compacted, |event| event.revision);
        self.log.clear();
        self.snapshots.clear();
        self.lives.forget_ended();
    }

    pub fn backup(&self) -> Backup {
        Backup { pods: Arc::clone(&self.pods), namespaces: self.namespaces.clone(), revision: self.revision }
    }

    pub fn restore(&mut self, backup: Backup) {
        self.restores += 1;
        let now = Instant::now();
        for (key, stored) in self.pods.iter() {
            let is_kept = backup.pods.get(key).is_some_and(|kept| Arc::ptr_eq(kept, stored));
            if !is_kept && stored.told.is_some() {
                self.lives.change(stored.told.clone(), false, [], now);
            }
        }
        let lost = std::mem::replace(&mut self.pods, backup.pods);
        self.namespaces = backup.namespaces;
        self.revision = backup.revision;
        self.compacted = self.compacted.min(backup.revision);
        self.log.retain(|event| event.revision <= backup.revision);
        self.snapshots.retain(|revision, _| *revision <= backup.revision);
        let pods = Arc::make_mut(&mut self.pods);
        for (key, stored) in pods.iter_mut() {
            let was_kept = lost.get(key).is_some_and(|lost| Arc::ptr_eq(lost, stored));
            if !was_kept && stored.told.is_some() {
                let told = self.lives.change(None, true, [reported(stored)], now);
                let Stored { pod, resource_version, bytes, remembered, .. } = &**stored;
                *stored = Arc::new(Stored {
                    pod: pod.clone(),
                    resource_version: *resource_version,
                    bytes: bytes.clone(),
                    remembered: remembered.clone(),
                    told,
                });
            }
        }
    }

    /// The pods of a namespace, or all, from a key on.
    pub fn select<'a>(
        pods: &'a Pods,
        namespace: Option<&'a str>,
        from: String,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let of = move |stored: &&Arc<Stored>| namespace.is_none_or(|name| stored.pod.namespace == name);
        pods.range(from..).map(|(_, stored)| stored).filter(of)
    }

    /// What a report has to say of the namespaces that it takes.
    pub fn expected(&self, takes: impl Fn(&str) -> bool) -> BTreeSet<Reported> {
        let is_live = |stored: &&Arc<Stored>| stored.told.is_some() && takes(&stored.pod.namespace);
        self.pods.values().filter(is_live).map(|stored| reported(stored)).collect()
    }

    /// The same, by one who saw nothing before: it does not know the digests that the kubelet forgot.
    pub fn expected_at_first_sight(&self, takes: impl Fn(&str) -> bool) -> BTreeSet<Reported> {
        let pods = self.pods.values().map(|stored| &stored.pod).filter(|pod| takes(&pod.namespace));
        let live = pods.filter(|pod| !pod.is_ended() && !pod.running().is_empty());
        live.map(|pod| line(pod, &pod.running())).collect()
    }

    pub fn lives(&self) -> Vec<Life> {
        self.lives.all()
    }
}

fn reported(stored: &Stored) -> Reported {
    line(&stored.pod, &stored.remembered)
}

/// One name stands for one digest; where there are several, each stands under a name of its own.
fn line(pod: &Pod, running: &BTreeMap<String, (String, String)>) -> Reported {
    let images: BTreeSet<_> = running.values().collect();
    let has_others =
        |image: &str, digest: &str| images.iter().any(|(name, other)| name == image && other != digest);
    let name = |image: &str, digest: &str| {
        if has_others(image, digest) { format!("{image}@sha256:{digest}") } else { image.to_owned() }
    };
    Reported {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        created: pod.created,
        digests: images.iter().map(|(image, digest)| (name(image, digest), digest.clone())).collect(),
    }
}
