//! State of one pod in the live set, and the departure that results from it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::template::Template;
use crate::live::collapse::{Counting, PodSkip, collapse};
use crate::live::departure::{Departure, Revision};
use crate::live::pod::{Phase, PodView};
use crate::live::selection::Exclusion;
use model::{Artifact, Workload};

/// Distinguishes a pod from a later one with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64);

/// One pod, without its name.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Unix time in seconds; zero if unknown.
    pub(super) created_at: i64,
    pub(super) identity: Identity,
    /// First revision with the current artifact.
    pub(super) since: Revision,
    pub(super) template: Arc<Template>,
}

/// The state of a pod before it ended.
#[derive(Debug)]
pub(super) struct FinalState {
    created_at: i64,
    workload: Arc<Workload>,
}

impl Identity {
    /// Identity of an unreadable pod; differs from every other one.
    pub(super) const UNKNOWN: Self = Self(0);

    /// From the uid, or else from the creation time.
    pub(super) fn from_pod(pod: &PodView) -> Self {
        let mut hasher = DefaultHasher::new();
        match pod.uid.as_str() {
            "" => pod.created_at.hash(&mut hasher),
            uid => uid.hash(&mut hasher),
        }
        Self(hasher.finish().max(1))
    }
}

impl Entry {
    pub(super) fn new(created_at: i64, identity: Identity, template: Arc<Template>) -> Self {
        Self { created_at, identity, since: Revision::default(), template }
    }

    /// The creation time of a pod. The first known one is kept, whatever later events contain.
    pub(super) fn creation_time(known: Option<&Self>, pod: &PodView) -> Option<i64> {
        known.map(|known| known.created_at).filter(|at| *at > 0).or_else(|| pod.reported_creation_time())
    }

    pub(super) fn workload(&self) -> Option<&Arc<Workload>> {
        self.template.collapsed.workload.as_ref().ok()
    }

    /// Whether an environment with this exclusion leaves the pod out.
    pub(super) fn is_excluded(&self, exclusion: Exclusion) -> bool {
        self.workload().is_some_and(|workload| exclusion.applies_to(workload))
    }

    /// Why the pod is not reported, in all environments.
    pub(super) fn skip(&self) -> Option<PodSkip> {
        self.template.collapsed.workload.as_ref().err().copied()
    }

    /// Whether both are reported as the same artifact, or not at all.
    pub(super) fn has_same_artifact(&self, other: &Self) -> bool {
        match (self.workload(), other.workload()) {
            (Some(own), Some(others)) => self.created_at == other.created_at && own == others,
            (own, others) => own.is_none() && others.is_none(),
        }
    }

    /// Whether both run, and this one has a digest that the other lacks.
    pub(super) fn has_digest_missing_in(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (self.workload(), other.workload()) else { return false };
        own.digests.iter().any(|(_, ran)| !others.digests.iter().any(|(_, runs)| runs == ran))
    }

    /// Whether both are the same pod in the same state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.created_at == other.created_at
            && self.identity == other.identity
            && Arc::ptr_eq(&self.template, &other.template)
    }

    /// The departure of the pod in its current state.
    pub(super) fn departure(&self, namespace: &Arc<str>, name: &str) -> Option<Departure> {
        let last = FinalState { created_at: self.created_at, workload: Arc::clone(self.workload()?) };
        Some(last.departure(namespace, name, self.since))
    }
}

impl FinalState {
    /// The state that would be reported if the pod had not ended. `entry` is its previous state.
    pub(super) fn new(pod: &PodView, counting: Counting, entry: Option<&Entry>) -> Option<Self> {
        let remembered = entry.map_or(&[][..], |entry| &entry.template.collapsed.containers);
        let created_at = Entry::creation_time(entry, pod)?;
        let pod = PodView { phase: Phase::Alive, created_at: Some(created_at), ..pod.clone() };
        Some(Self { created_at, workload: collapse(pod, counting, remembered).workload.ok()? })
    }

    /// Whether it equals the reported state of an entry.
    pub(super) fn equals(&self, entry: &Entry) -> bool {
        self.created_at == entry.created_at && entry.workload() == Some(&self.workload)
    }

    pub(super) fn departure(self, namespace: &Arc<str>, name: &str, since: Revision) -> Departure {
        let Self { created_at, workload } = self;
        let artifact =
            Artifact { namespace: Arc::clone(namespace), pod_name: name.into(), created_at, workload };
        Departure { artifact, since }
    }
}
