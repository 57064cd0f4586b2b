//! Reference implementation of the live set: plain maps that are iterated for each query. Used by the
//! property tests only.

use std::collections::{BTreeMap, BTreeSet};

use super::{NAMESPACES, Scope};
use crate::live::collapse::{ContainerSkip, PodSkip};
use crate::live::departure::Revision;
use crate::live::live_set::{RelistDiff, Tally};
use crate::live::pod::{ContainerView, Phase, PodView};
use crate::live::selection::Selection;

/// A pod in one event.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub(super) namespace: usize,
    pub(super) name: String,
    pub(super) uid: Option<u8>,
    pub(super) created_at: Option<i64>,
    pub(super) has_ended: bool,
    /// Digest of each container by name, if known.
    pub(super) containers: BTreeMap<u8, Option<u8>>,
}

impl Pod {
    pub(super) fn view(&self) -> PodView {
        let container = |(name, digest): (&u8, &Option<u8>)| ContainerView {
            name: format!("c{name}"),
            image: format!("app-{name}"),
            image_id: digest.map_or(String::new(), |d| format!("sha256:{}", format!("{d:02x}").repeat(32))),
            ..Default::default()
        };
        PodView {
            namespace: NAMESPACES[self.namespace].into(),
            name: self.name.clone(),
            uid: self.uid.map_or(String::new(), |uid| format!("uid-{uid}")),
            created_at: self.created_at,
            phase: if self.has_ended { Phase::Ended } else { Phase::Alive },
            owners: vec![],
            containers: self.containers.iter().map(container).collect(),
            is_excluded: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlainPod {
    pub(super) uid: Option<(Option<u8>, Option<i64>)>,
    created_at: i64,
    pub(super) state: State,
    is_marked: bool,
    pub(super) since: Revision,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// Last digest of each container, and the number of containers without one.
    Live(BTreeMap<u8, u8>, usize),
    /// `Live` without a creation time.
    Timeless(BTreeMap<u8, u8>, usize),
    Out(PodSkip),
}

pub(super) type Described = (String, String, i64, BTreeMap<String, u8>);

#[derive(Debug, Default)]
pub(super) struct Plain {
    pub(super) pods: BTreeMap<String, BTreeMap<String, PlainPod>>,
    pub(super) listed: BTreeSet<Scope>,
    pub(super) open: BTreeSet<Scope>,
    pub(super) unnamed: BTreeMap<Scope, Vec<usize>>,
    pub(super) current_unnamed: BTreeMap<Scope, Vec<usize>>,
    pub(super) diff: BTreeMap<Scope, RelistDiff>,
}

pub(super) fn is_selected(namespace: usize) -> bool {
    NAMESPACES[namespace] != "unselected"
}

pub(super) fn digests(containers: &BTreeMap<u8, u8>) -> BTreeMap<String, u8> {
    containers.iter().map(|(name, digest)| (format!("docker.io/library/app-{name}"), *digest)).collect()
}

impl Plain {
    pub(super) fn begin(&mut self, of: Scope) {
        for (namespace, pods) in &mut self.pods {
            if of.is_none_or(|of| NAMESPACES[of] == namespace) {
                for pod in pods.values_mut() {
                    pod.is_marked = false;
                }
            }
        }
        self.open.insert(of);
        self.current_unnamed.remove(&of);
    }

    /// State of a pod if it had not ended: its digests, and the remembered ones.
    pub(super) fn alive(pod: &Pod, own: Option<&PlainPod>) -> State {
        let mut known = match own {
            Some(PlainPod { state: State::Live(known, _) | State::Timeless(known, _), .. }) => known.clone(),
            _ => BTreeMap::new(),
        };
        known.extend(pod.containers.iter().filter_map(|(name, digest)| Some((*name, (*digest)?))));
        let waiting = pod.containers.keys().filter(|name| !known.contains_key(name)).count();
        match (known.is_empty(), pod.created_at) {
            (true, _) => State::Out(PodSkip::NotStarted),
            (_, None) => State::Timeless(known, waiting),
            _ => State::Live(known, waiting),
        }
    }

    pub(super) fn own<'a>(pod: &Pod, before: Option<&'a PlainPod>) -> Option<&'a PlainPod> {
        let identity = (pod.uid, if pod.uid.is_some() { None } else { pod.created_at });
        before.filter(|before| before.uid == Some(identity))
    }

    /// The pod with its first known creation time.
    fn with_creation_time(pod: &Pod, own: Option<&PlainPod>) -> Pod {
        let known = own.map(|own| own.created_at).filter(|at| *at > 0);
        Pod { created_at: known.or(pod.created_at), ..pod.clone() }
    }

    /// Departure of a pod that ends or is deleted, with its revision if the set contained it.
    pub(super) fn ends(
        &self,
        of: Scope,
        pod: &Pod,
        own: Option<&PlainPod>,
    ) -> Option<(Described, Option<Revision>)> {
        let describe = |created_at, containers: &BTreeMap<u8, u8>| {
            (NAMESPACES[pod.namespace].to_owned(), pod.name.clone(), created_at, digests(containers))
        };
        let pod = Self::with_creation_time(pod, own);
        let last = match (Self::alive(&pod, own), pod.created_at) {
            (State::Live(containers, _), Some(created_at)) => Some(describe(created_at, &containers)),
            _ => None,
        };
        match own {
            None => last.filter(|_| self.listed.contains(&of)).map(|last| (last, None)),
            Some(PlainPod { state: State::Out(PodSkip::Ended), .. }) => None,
            Some(PlainPod { state: State::Live(containers, _), created_at, since, .. }) => {
                let before = describe(*created_at, containers);
                match last {
                    Some(last) if last != before => Some((last, None)),
                    _ => Some((before, Some(*since))),
                }
            }
            Some(_) => last.map(|last| (last, None)),
        }
    }

    /// Returns the departures, whether the artifact changed, and whether the pod is repeated.
    pub(super) fn apply(&mut self, of: Scope, pod: &Pod) -> (Vec<(Described, Option<Revision>)>, bool, bool) {
        if !is_selected(pod.namespace) {
            return (vec![], false, false);
        }
        let namespace = NAMESPACES[pod.namespace].to_owned();
        let before = self.pods.get(&namespace).and_then(|pods| pods.get(&pod.name)).cloned();
        let own = Self::own(pod, before.as_ref());
        let identity = (pod.uid, if pod.uid.is_some() { None } else { pod.created_at });
        let pod = &Self::with_creation_time(pod, own);
        let state = if pod.has_ended { State::Out(PodSkip::Ended) } else { Self::alive(pod, own) };
        let mut now = PlainPod {
            uid: Some(identity),
            created_at: pod.created_at.unwrap_or_default(),
            state,
            is_marked: true,
            since: Revision::default(),
        };
        let artifact = |kept: Option<&PlainPod>| match kept {
            Some(PlainPod { state: State::Live(containers, _), created_at, .. }) => {
                Some((namespace.clone(), pod.name.clone(), *created_at, digests(containers)))
            }
            _ => None,
        };
        let differs = artifact(before.as_ref()) != artifact(Some(&now));
        let mut departs = Vec::new();
        let ran = |kept: Option<&PlainPod>| match kept {
            Some(PlainPod { state: State::Live(containers, _), .. }) => {
                containers.values().copied().collect()
            }
            _ => BTreeSet::new(),
        };
        let (before_ran, runs) = (ran(before.as_ref()), ran(Some(&now)));
        let has_replaced_digest = !runs.is_empty() && !before_ran.is_subset(&runs);
        if (own.is_none() || has_replaced_digest) && differs {
            departs.extend(artifact(before.as_ref()).map(|a| (a, before.as_ref().map(|b| b.since))));
        }
        if pod.has_ended {
            departs.extend(self.ends(of, pod, own));
        } else if !matches!(now.state, State::Live(..)) {
            departs.extend(artifact(own).map(|a| (a, own.map(|own| own.since))));
        }
        let is_repeated = self.open.contains(&of) && before.as_ref().is_some_and(|before| before.is_marked);
        if self.open.contains(&of) && !is_repeated {
            let diff = self.diff.entry(of).or_default();
            match &before {
                None => diff.added += 1,
                Some(before) => {
                    let was = PlainPod { is_marked: true, since: now.since, ..before.clone() };
                    diff.changed += u64::from(was != now);
                }
            }
        }
        now.since = before.map_or(now.since, |before| before.since);
        self.pods.entry(namespace).or_default().insert(pod.name.clone(), now);
        (departs, differs, is_repeated)
    }

    pub(super) fn remove(&mut self, of: Scope, pod: &Pod) -> Option<(Described, Option<Revision>)> {
        let before = self.pods.get(NAMESPACES[pod.namespace]).and_then(|pods| pods.get(&pod.name)).cloned();
        let own = Self::own(pod, before.as_ref());
        if !is_selected(pod.namespace) || own.is_none() && before.as_ref().is_some_and(|b| b.uid.is_some()) {
            return None;
        }
        let departs = self.ends(of, pod, own);
        if let Some(pods) = self.pods.get_mut(NAMESPACES[pod.namespace]) {
            pods.remove(&pod.name);
        }
        departs
    }

    pub(super) fn unreadable(&mut self, of: Scope, name: Option<&(usize, String)>) {
        let is_open = self.open.contains(&of);
        let Some(namespace) = name.map(|(namespace, _)| *namespace).or(of) else { return };
        let Some((_, name)) = name.filter(|(_, name)| !name.is_empty()) else {
            let counts = if is_open { &mut self.current_unnamed } else { &mut self.unnamed };
            counts.entry(of).or_default().push(namespace);
            return;
        };
        if !is_selected(namespace) {
            return;
        }
        let pods = self.pods.entry(NAMESPACES[namespace].into()).or_default();
        if let Some(pod) = pods.get_mut(name) {
            pod.is_marked = true;
            return;
        }
        self.diff.entry(of).or_default().added += u64::from(is_open);
        let state = State::Out(PodSkip::Unreadable);
        let kept = PlainPod { uid: None, created_at: 0, state, is_marked: true, since: Revision::default() };
        pods.insert(name.clone(), kept);
    }

    pub(super) fn complete(&mut self, of: Scope) -> (BTreeSet<(Described, Option<Revision>)>, RelistDiff) {
        if !self.open.contains(&of) {
            return Default::default();
        }
        let mut diff = self.diff.remove(&of).unwrap_or_default();
        let mut departs = BTreeSet::new();
        for (namespace, pods) in &mut self.pods {
            if of.is_none_or(|of| NAMESPACES[of] == namespace) {
                for (name, pod) in pods.extract_if(.., |_, pod| !pod.is_marked) {
                    diff.removed += 1;
                    if let State::Live(containers, _) = &pod.state {
                        let described = (namespace.clone(), name, pod.created_at, digests(containers));
                        departs.insert((described, Some(pod.since)));
                    }
                }
            }
        }
        self.open.remove(&of);
        self.listed.insert(of);
        self.unnamed.insert(of, self.current_unnamed.remove(&of).unwrap_or_default());
        (departs, diff)
    }

    /// The artifacts of an environment, by `namespace/name`.
    pub(super) fn artifacts(&self, selection: &Selection) -> Vec<Described> {
        let mut artifacts = BTreeMap::new();
        for (namespace, pods) in self.pods.iter().filter(|(namespace, _)| selection.selects(namespace)) {
            for (name, pod) in pods {
                if let State::Live(containers, _) = &pod.state {
                    let described = (namespace.clone(), name.clone(), pod.created_at, digests(containers));
                    artifacts.insert(format!("{namespace}/{name}"), described);
                }
            }
        }
        artifacts.into_values().collect()
    }

    pub(super) fn tally(&self, selection: &Selection) -> Tally {
        let mut tally = Tally::default();
        let taken = self.pods.iter().filter(|(namespace, _)| selection.selects(namespace));
        for pod in taken.flat_map(|(_, pods)| pods.values()) {
            tally.pods += 1;
            match &pod.state {
                State::Live(containers, waiting) | State::Timeless(containers, waiting) => {
                    match pod.state {
                        State::Live(..) => tally.artifacts += 1,
                        _ => *tally.skipped_pods.entry(PodSkip::Unreadable).or_default() += 1,
                    }
                    tally.config_digests += containers.len() as u64;
                    if *waiting > 0 {
                        *tally.skipped_containers.entry(ContainerSkip::NotStarted).or_default() +=
                            *waiting as u64;
                    }
                }
                State::Out(why) => *tally.skipped_pods.entry(*why).or_default() += 1,
            }
        }
        tally
    }
}
