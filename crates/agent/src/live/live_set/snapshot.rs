//! The artifacts of one environment at one time. Later changes of the live set do not affect it.
//!
//! The live set creates one for each report. A snapshot shares the blocks of the set; departed pods are
//! merged in during iteration.

use std::cmp::Ordering;
use std::sync::Arc;

use super::block::Block;
use super::tally::Tally;
use crate::live::departure::Revision;
use crate::live::selection::Exclusion;
use model::{Artifact, ArtifactView};

#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counts without the departed pods.
    pub tally: Tally,
    /// The last revision that changed an artifact of the environment.
    pub revision: Revision,
    /// Number of pods that an annotation excludes, running and departed.
    pub excluded: u64,
    exclusion: Exclusion,
    blocks: Arc<[(Arc<str>, Arc<Block>)]>,
    /// In report order.
    departed: Arc<[Artifact]>,
}

/// Position of an iterator, to resume it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    block: usize,
    pod: usize,
    departed: usize,
}

/// Iterator in report order.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    snapshot: &'a Snapshot,
    cursor: Cursor,
}

impl Snapshot {
    pub(super) fn new(
        tally: Tally,
        revision: Revision,
        exclusion: Exclusion,
        blocks: Vec<(Arc<str>, Arc<Block>)>,
        mut departed: Vec<Artifact>,
    ) -> Self {
        departed.sort_by(|one, other| one.view().report_order(&other.view()));
        let mut unique: Vec<Artifact> = Vec::with_capacity(departed.len());
        for artifact in departed {
            let has_same_name =
                |other: &&Artifact| other.view().report_order(&artifact.view()) == Ordering::Equal;
            // A pod that ran again and departed again is present twice.
            if !unique.iter().rev().take_while(has_same_name).any(|other| *other == artifact) {
                unique.push(artifact);
            }
        }
        let excluded =
            unique.extract_if(.., |artifact| exclusion.applies_to(&artifact.workload)).count() as u64;
        let excluded = excluded + tally.excluded();
        Self { tally, revision, excluded, exclusion, blocks: blocks.into(), departed: unique.into() }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.tally.artifacts).unwrap_or(usize::MAX).saturating_add(self.departed.len())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The artifacts in report order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(Cursor::default())
    }

    /// The artifacts in report order, from a cursor on.
    #[must_use]
    pub fn iter_from(&self, cursor: Cursor) -> Iter<'_> {
        Iter { snapshot: self, cursor }
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = ArtifactView<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> Iter<'a> {
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The next reported pod of the set. Moves the cursor to it, not past it.
    fn peek_running(&mut self) -> Option<ArtifactView<'a>> {
        loop {
            let (namespace, block) = self.snapshot.blocks.get(self.cursor.block)?;
            match block.get(self.cursor.pod) {
                Some((pod_name, entry)) => {
                    let is_excluded = entry.is_excluded(self.snapshot.exclusion);
                    if let Some(workload) = entry.workload().filter(|_| !is_excluded) {
                        return Some(ArtifactView {
                            namespace,
                            pod_name,
                            created_at: entry.created_at,
                            workload,
                        });
                    }
                    self.cursor.pod += 1;
                }
                None => self.cursor = Cursor { block: self.cursor.block + 1, pod: 0, ..self.cursor },
            }
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = ArtifactView<'a>;

    fn next(&mut self) -> Option<ArtifactView<'a>> {
        let running = self.peek_running();
        let departed = self.snapshot.departed.get(self.cursor.departed).map(Artifact::view);
        match (departed, running) {
            (Some(departed), running)
                if running.is_none_or(|running| departed.report_order(&running).is_le()) =>
            {
                self.cursor.departed += 1;
                Some(departed)
            }
            (_, running) => {
                self.cursor.pod += 1;
                running
            }
        }
    }
}
