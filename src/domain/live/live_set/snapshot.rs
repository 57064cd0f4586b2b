//! What one environment reports: the artifacts of a moment, which later changes do not touch.
//!
//! The roster makes one for each report. It shares the blocks of the set; pods that came and went
//! unreported are merged in while it is walked.

use std::cmp::Ordering;
use std::sync::Arc;

use super::block::Block;
use super::tally::Tally;
use crate::domain::live::departure::Revision;
use crate::domain::model::{Artifact, ArtifactView};

/// The artifacts of one environment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What was counted, the witnessed pods not among it.
    pub tally: Tally,
    /// The last revision that changed an artifact of the environment.
    pub revision: Revision,
    blocks: Arc<[(Arc<str>, Arc<Block>)]>,
    /// In report order.
    witnessed: Arc<[Artifact]>,
}

/// How far a walk is, so that it can go on later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    block: usize,
    pod: usize,
    witnessed: usize,
}

/// A walk in report order.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    snapshot: &'a Snapshot,
    place: Place,
}

impl Snapshot {
    pub(crate) fn new(
        tally: Tally,
        revision: Revision,
        blocks: Vec<(Arc<str>, Arc<Block>)>,
        mut witnessed: Vec<Artifact>,
    ) -> Self {
        witnessed.sort_by(|one, other| one.view().report_order(&other.view()));
        let mut said: Vec<Artifact> = Vec::with_capacity(witnessed.len());
        for artifact in witnessed {
            let is_namesake =
                |other: &&Artifact| other.view().report_order(&artifact.view()) == Ordering::Equal;
            // One that was back for a while, and left again, left twice.
            if !said.iter().rev().take_while(is_namesake).any(|other| *other == artifact) {
                said.push(artifact);
            }
        }
        let witnessed = said;
        Self { tally, revision, blocks: blocks.into(), witnessed: witnessed.into() }
    }

    /// How many artifacts it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.tally.artifacts).unwrap_or(usize::MAX).saturating_add(self.witnessed.len())
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The artifacts in report order.
    #[must_use]
    pub fn iter(&self) -> Walk<'_> {
        self.walk_from(Place::default())
    }

    /// The artifacts in report order, from where another walk stopped.
    #[must_use]
    pub fn walk_from(&self, place: Place) -> Walk<'_> {
        Walk { snapshot: self, place }
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = ArtifactView<'a>;
    type IntoIter = Walk<'a>;

    fn into_iter(self) -> Walk<'a> {
        self.iter()
    }
}

impl<'a> Walk<'a> {
    /// Where it goes on.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// The next pod of the set that is reported; the place is set to it, not behind it.
    fn live(&mut self) -> Option<ArtifactView<'a>> {
        loop {
            let (namespace, block) = self.snapshot.blocks.get(self.place.block)?;
            match block.get(self.place.pod) {
                Some((pod_name, entry)) => {
                    if let Some(workload) = entry.workload() {
                        return Some(ArtifactView {
                            namespace,
                            pod_name,
                            created_at: entry.created_at,
                            workload,
                        });
                    }
                    self.place.pod += 1;
                }
                None => self.place = Place { block: self.place.block + 1, pod: 0, ..self.place },
            }
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = ArtifactView<'a>;

    fn next(&mut self) -> Option<ArtifactView<'a>> {
        let live = self.live();
        let witnessed = self.snapshot.witnessed.get(self.place.witnessed).map(Artifact::view);
        match (witnessed, live) {
            (Some(witnessed), live) if live.is_none_or(|live| witnessed.report_order(&live).is_le()) => {
                self.place.witnessed += 1;
                Some(witnessed)
            }
            (_, live) => {
                self.place.pod += 1;
                live
            }
        }
    }
}
