//! The pods of one namespace, sorted by name, in blocks with the marks of the current list.
//!
//! Snapshots share the blocks; a write copies a block that a snapshot still shares. Full blocks are split,
//! small ones merged.

use std::sync::Arc;

use super::block::{Block, MAX_PODS};
use super::entry::Entry;

/// Blocks below this size are merged with a neighbor if the result is at most half full.
const MIN_PODS: usize = MAX_PODS / 4;

/// The pods of one namespace.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<MarkedBlock>);

/// A block, and which of its pods the current list contains. The marks are outside of the block that snapshots share, so
/// that marking copies nothing.
#[derive(Debug, Default)]
struct MarkedBlock {
    block: Arc<Block>,
    marks: Vec<bool>,
}

/// Position of a pod, or position at which to insert it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    block: usize,
    index: usize,
}

impl Blocks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn share(&self) -> impl Iterator<Item = Arc<Block>> {
        self.0.iter().map(|marked| Arc::clone(&marked.block))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|marked| marked.block.iter().map(|(_, entry)| entry))
    }

    pub(super) fn find(&self, name: &str) -> Result<Position, Position> {
        let block = self.0.partition_point(|marked| marked.block.last_name() < name);
        if let Some(marked) = self.0.get(block) {
            return match marked.block.find(name) {
                Ok(index) => Ok(Position { block, index }),
                Err(index) => Err(Position { block, index }),
            };
        }
        let last = block.saturating_sub(1);
        let index = self.0.get(last).map_or(0, |marked| marked.block.len());
        Err(Position { block: last, index })
    }

    pub(super) fn get(&self, at: Position) -> Option<&Entry> {
        self.0.get(at.block)?.block.get(at.index).map(|(_, entry)| entry)
    }

    pub(super) fn is_marked(&self, at: Position) -> bool {
        self.0.get(at.block).and_then(|marked| marked.marks.get(at.index)) == Some(&true)
    }

    pub(super) fn mark(&mut self, at: Position) {
        if let Some(mark) = self.0.get_mut(at.block).and_then(|marked| marked.marks.get_mut(at.index)) {
            *mark = true;
        }
    }

    pub(super) fn clear_marks(&mut self) {
        for marked in &mut self.0 {
            marked.marks.fill(false);
        }
    }

    pub(super) fn replace(&mut self, at: Position, entry: Entry) {
        if let Some(marked) = self.0.get_mut(at.block) {
            Arc::make_mut(&mut marked.block).replace(at.index, entry);
        }
    }

    /// Inserts a pod at the position that [`Self::find`] returned as an error, and marks it.
    pub(super) fn insert(&mut self, at: Position, name: &str, entry: Entry) {
        let at = self.make_room(at);
        if let Some(marked) = self.0.get_mut(at.block) {
            Arc::make_mut(&mut marked.block).insert(at.index, name, entry);
            marked.marks.insert(at.index, true);
        }
    }

    pub(super) fn remove(&mut self, at: Position) {
        if let Some(marked) = self.0.get_mut(at.block) {
            Arc::make_mut(&mut marked.block).remove(at.index);
            marked.marks.remove(at.index);
            self.merge_if_small(at.block);
        }
    }

    /// Removes all pods without a mark, and passes them to `each`.
    pub(super) fn sweep(&mut self, mut each: impl FnMut(&str, &Entry)) {
        for marked in &mut self.0 {
            let MarkedBlock { block, marks } = marked;
            if !marks.contains(&false) {
                // Not shared if it was filled by this list.
                if let Some(block) = Arc::get_mut(block) {
                    block.shrink();
                }
                continue;
            }
            let mut kept = Block::default();
            for ((name, entry), is_marked) in block.iter().zip(&*marks) {
                if *is_marked {
                    kept.insert(kept.len(), name, entry.clone());
                } else {
                    each(name, entry);
                }
            }
            kept.shrink();
            *marked = MarkedBlock { marks: vec![true; kept.len()], block: Arc::new(kept) };
        }
        self.0.retain(|marked| marked.block.len() > 0);
        for block in (0..self.0.len()).rev() {
            self.merge_if_small(block);
        }
    }

    /// Makes room for one more pod. Returns its position.
    fn make_room(&mut self, at: Position) -> Position {
        let Some(marked) = self.0.get_mut(at.block) else {
            self.0.push(MarkedBlock::default());
            return Position { block: self.0.len() - 1, index: 0 };
        };
        if !marked.block.is_full() {
            return at;
        }
        let next = at.block + 1;
        if at.index == marked.block.len() {
            // Lists are sorted, so a full block stays full.
            if let Some(block) = Arc::get_mut(&mut marked.block) {
                block.shrink();
            }
            self.0.insert(next, MarkedBlock::default());
            return Position { block: next, index: 0 };
        }
        let half = MAX_PODS / 2;
        let block = Arc::new(Arc::make_mut(&mut marked.block).split_off(half));
        let marks = marked.marks.split_off(half);
        self.0.insert(next, MarkedBlock { block, marks });
        match at.index.checked_sub(half) {
            Some(index) => Position { block: next, index },
            None => at,
        }
    }

    /// Removes an empty block, or merges a small one with a neighbor.
    fn merge_if_small(&mut self, block: usize) {
        let length = |block: usize| self.0.get(block).map(|marked| marked.block.len());
        let Some(own) = length(block) else { return };
        let fits = |other: Option<usize>| other.is_some_and(|other| own + other <= MAX_PODS / 2);
        if own == 0 {
            self.0.remove(block);
        } else if own < MIN_PODS && fits(length(block + 1)) {
            self.merge_next(block);
        } else if own < MIN_PODS && block > 0 && fits(length(block - 1)) {
            self.merge_next(block - 1);
        }
    }

    fn merge_next(&mut self, block: usize) {
        let next = self.0.remove(block + 1);
        if let Some(marked) = self.0.get_mut(block) {
            marked.marks.extend(next.marks);
            Arc::make_mut(&mut marked.block).append(&next.block);
        }
    }

    #[cfg(test)]
    pub(super) fn lengths(&self) -> Vec<usize> {
        self.0.iter().map(|marked| marked.block.len()).collect()
    }
}
