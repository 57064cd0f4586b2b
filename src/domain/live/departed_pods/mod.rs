//! The witness: pods that came and went, and that no accepted report held.
//!
//! Each environment in `agent` has one. It is told of every pod that leaves and of every report that was
//! accepted, and gives what the next report carries beside the pods that run. It does not know when that
//! is sent: that is the cadence's.

mod backlog;

use std::collections::HashMap;
use std::sync::Arc;

use self::backlog::{Kept, Pile};

use super::departure::{Departure, Revision};
use crate::domain::model::{Artifact, Workload};

/// Whether a report holds more than what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// What runs, and nothing else.
    Nothing,
    /// All that the witness had when it was composed, too.
    Witnessed,
}

/// How many pods are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Past so many, one is kept for each namespace, owners and digests.
    pub each: usize,
    /// Past so many, the oldest go of the namespace whose pods take most.
    pub most: usize,
    /// And past so many bytes that they take.
    pub bytes: usize,
}

/// The pods of one environment that no accepted report held.
///
/// A report of a revision holds every pod with `since` up to it: as one that runs, or, where it had left
/// by then, as a witnessed one. So that revision is all that a pod has to be compared with, whether it
/// left before the report was composed, while it was in flight, or later.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    bounds: Bounds,
    kept: Pile,
    /// How many left.
    departures: u64,
    /// Where there are too many to keep all: the one that stands for all of its kind.
    standing: Option<HashMap<Kind, u64>>,
    /// The last revision of which a report was accepted.
    accepted: Revision,
    counts: Counts,
}

/// The pods that were not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Those for which another of their namespace, owners and digests stands.
    pub stood_for: u64,
    /// Those for which none does: the oldest of too many in one namespace.
    pub lost: u64,
}

/// What two pods have in common of which one can stand for the other.
type Kind = (Arc<str>, Arc<Workload>);

impl Default for Bounds {
    fn default() -> Self {
        Self { each: 1_000, most: 10_000, bytes: 16 * 1024 * 1024 }
    }
}

impl Witness {
    /// Of an environment that has not reported.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// A pod left. `left` is the first revision without it, and no report of that one or a later one may
    /// have been composed before. Where an accepted report held the pod there is nothing to keep.
    pub fn departed(&mut self, departure: Departure, left: Revision) {
        let Departure { artifact, since } = departure;
        if since <= self.accepted {
            return;
        }
        let number = self.departures;
        self.departures += 1;
        let new = Kept { artifact, since, left };
        match &mut self.standing {
            None => {
                self.kept.insert(number, new);
                if self.kept.len() > self.bounds.each {
                    self.thin();
                }
            }
            Some(standing) => Self::stand(&mut self.kept, standing, number, new, &mut self.counts),
        }
        while self.kept.len() > self.bounds.most || self.kept.size() > self.bounds.bytes {
            let Some((number, oldest)) = self.kept.take_of_the_most() else { break };
            self.counts.lost += 1;
            if let Some(standing) = &mut self.standing {
                let kind = kind(&oldest);
                if standing.get(&kind) == Some(&number) {
                    standing.remove(&kind);
                }
            }
        }
    }

    /// A report of this revision was accepted. Those that it held are kept no longer.
    pub fn accepted(&mut self, revision: Revision, carried: Carried) {
        self.accepted = self.accepted.max(revision);
        // One that left only after the report was composed ran when it was; one that had left before is
        // in the report only if that carried it.
        let is_in_it =
            |kept: &Kept| kept.since <= revision && (carried == Carried::Witnessed || revision < kept.left);
        self.kept.retain(|kept| !is_in_it(kept));
        if carried == Carried::Witnessed && self.kept.len() <= self.bounds.each {
            self.standing = None;
        } else if let Some(standing) = &mut self.standing {
            standing.retain(|(namespace, _), number| self.kept.get(namespace, *number).is_some());
        }
    }

    /// What the next report carries, in report order; of pods with one name the older comes first.
    #[must_use]
    pub fn artifacts(&self) -> Vec<Artifact> {
        let mut kept: Vec<_> = self.kept.iter().map(|(_, kept)| kept).collect();
        kept.sort_by(|a, b| {
            let age = || (a.artifact.created_at, a.since).cmp(&(b.artifact.created_at, b.since));
            a.artifact.view().report_order(&b.artifact.view()).then_with(age)
        });
        kept.into_iter().map(|kept| kept.artifact.clone()).collect()
    }

    /// How many the next report carries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether it carries none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.len() == 0
    }

    /// How many were not kept, since the beginning.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Begins to keep one of each kind.
    fn thin(&mut self) {
        let mut standing = HashMap::new();
        let mut kept = Pile::default();
        for (number, new) in std::mem::take(&mut self.kept).iter() {
            Self::stand(&mut kept, &mut standing, number, new.clone(), &mut self.counts);
        }
        self.kept = kept;
        self.standing = Some(standing);
    }

    /// Adds one where one of each kind is kept: the one that started last. A report that held that one
    /// held all for which it stands, or was composed when it stood for them already; with an earlier one
    /// in its place, the answer to a report from before the later one started would take both away.
    fn stand(
        kept: &mut Pile,
        standing: &mut HashMap<Kind, u64>,
        number: u64,
        new: Kept,
        counts: &mut Counts,
    ) {
        let kind = kind(&new);
        if let Some(old) = standing.get(&kind) {
            counts.stood_for += 1;
            if kept.get(&kind.0, *old).is_some_and(|old| old.since > new.since) {
                return;
            }
            kept.remove(&kind.0, *old);
        }
        standing.insert(kind, number);
        kept.insert(number, new);
    }
}

/// Of which kind a pod is.
fn kind(kept: &Kept) -> Kind {
    (Arc::clone(&kept.artifact.namespace), Arc::clone(&kept.artifact.workload))
}

#[cfg(test)]
mod tests;
