//! What the set keeps of one pod beside its name, and what is said of a pod that departs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::template::Template;
use crate::domain::live::collapse::{Counting, PodSkip, collapse};
use crate::domain::live::departure::{Departure, Revision};
use crate::domain::live::pod::{Phase, PodView};
use crate::domain::model::{Artifact, Workload};

/// What tells a pod from a later one of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(u64);

/// One pod, without its name.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// In seconds of Unix time; zero where it is not known.
    pub(crate) created_at: i64,
    pub(crate) identity: Identity,
    /// The first revision that held its artifact as it is.
    pub(crate) since: Revision,
    pub(crate) template: Arc<Template>,
}

/// How a pod that is gone was last.
#[derive(Debug)]
pub(crate) struct Last {
    created_at: i64,
    workload: Arc<Workload>,
}

impl Identity {
    /// That of a pod that could not be read: it is no other's.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// Its uid, or else when it was created.
    pub(crate) fn of(pod: &PodView) -> Self {
        let mut hasher = DefaultHasher::new();
        match pod.uid.as_str() {
            "" => pod.created_at.hash(&mut hasher),
            uid => uid.hash(&mut hasher),
        }
        Self(hasher.finish().max(1))
    }
}

impl Entry {
    pub(crate) fn new(created_at: i64, identity: Identity, template: Arc<Template>) -> Self {
        Self { created_at, identity, since: Revision::default(), template }
    }

    /// When a pod was created, of which this is known: it has one time, whatever an event says later.
    pub(crate) fn time(known: Option<&Self>, pod: &PodView) -> Option<i64> {
        known.map(|known| known.created_at).filter(|at| *at > 0).or_else(|| pod.time())
    }

    /// What is reported of it.
    pub(crate) fn workload(&self) -> Option<&Arc<Workload>> {
        self.template.collapsed.workload.as_ref().ok()
    }

    /// Why nothing is.
    pub(crate) fn left_out(&self) -> Option<PodSkip> {
        self.template.collapsed.workload.as_ref().err().copied()
    }

    /// Whether a report says the same of both.
    pub(crate) fn has_artifact_of(&self, other: &Self) -> bool {
        match (self.workload(), other.workload()) {
            (Some(own), Some(others)) => self.created_at == other.created_at && own == others,
            (own, others) => own.is_none() && others.is_none(),
        }
    }

    /// Whether it ran a digest that the other, which runs too, does not.
    pub(crate) fn ran_what_is_not_in(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (self.workload(), other.workload()) else { return false };
        own.digests.iter().any(|(_, ran)| !others.digests.iter().any(|(_, runs)| runs == ran))
    }

    /// Whether it is the same pod in the same state.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.created_at == other.created_at
            && self.identity == other.identity
            && Arc::ptr_eq(&self.template, &other.template)
    }

    /// It leaves, as it is.
    pub(crate) fn departure(&self, namespace: &Arc<str>, name: &str) -> Option<Departure> {
        let last = Last { created_at: self.created_at, workload: Arc::clone(self.workload()?) };
        Some(last.departure(namespace, name, self.since))
    }
}

impl Last {
    /// What would be reported of a pod, had it not ended; `entry` is what was known of it before.
    pub(crate) fn of(pod: &PodView, counting: Counting, entry: Option<&Entry>) -> Option<Self> {
        let remembered = entry.map_or(&[][..], |entry| &entry.template.collapsed.containers);
        let created_at = Entry::time(entry, pod)?;
        let pod = PodView { phase: Phase::Alive, created_at: Some(created_at), ..pod.clone() };
        Some(Self { created_at, workload: collapse(pod, counting, remembered).workload.ok()? })
    }

    /// Whether it is what a report already said.
    pub(crate) fn is_of(&self, entry: &Entry) -> bool {
        self.created_at == entry.created_at && entry.workload() == Some(&self.workload)
    }

    pub(crate) fn departure(self, namespace: &Arc<str>, name: &str, since: Revision) -> Departure {
        let Self { created_at, workload } = self;
        let artifact =
            Artifact { namespace: Arc::clone(namespace), pod_name: name.into(), created_at, workload };
        Departure { artifact, since }
    }
}
