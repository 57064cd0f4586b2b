//! The pods of one namespace, by name: blocks in order, and the marks of the list that is being read.
//!
//! A snapshot shares the blocks, and a write copies the one that it touches where a snapshot still
//! holds it. Full blocks are split and small ones merged.

use std::sync::Arc;

use super::block::Block;
use super::entry::Entry;
use super::marks::{MOST, Marks};

/// Below this, a block is merged with a neighbour where both are then no more than half full.
const SMALL: usize = MOST / 4;

/// The pods of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<Marked>);

#[derive(Debug)]
struct Marked {
    block: Arc<Block>,
    marks: Marks,
}

/// Where a pod stands, or would.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    block: usize,
    place: usize,
}

impl Blocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blocks as they are, to keep.
    pub(crate) fn share(&self) -> impl Iterator<Item = Arc<Block>> {
        self.0.iter().map(|marked| Arc::clone(&marked.block))
    }

    pub(crate) fn find(&self, name: &str) -> Result<Position, Position> {
        let block = self.0.partition_point(|marked| marked.block.last_name() < name);
        if let Some(marked) = self.0.get(block) {
            return match marked.block.find(name) {
                Ok(place) => Ok(Position { block, place }),
                Err(place) => Err(Position { block, place }),
            };
        }
        let last = block.saturating_sub(1);
        let place = self.0.get(last).map_or(0, |marked| marked.block.len());
        Err(Position { block: last, place })
    }

    pub(crate) fn get(&self, at: Position) -> Option<&Entry> {
        self.0.get(at.block)?.block.get(at.place).map(|(_, entry)| entry)
    }

    pub(crate) fn is_marked(&self, at: Position) -> bool {
        self.0.get(at.block).is_some_and(|marked| marked.marks.has(at.place))
    }

    pub(crate) fn mark(&mut self, at: Position) {
        if let Some(marked) = self.0.get_mut(at.block) {
            marked.marks.set(at.place, true);
        }
    }

    pub(crate) fn clear_marks(&mut self) {
        for marked in &mut self.0 {
            marked.marks = Marks::default();
        }
    }

    pub(crate) fn replace(&mut self, at: Position, entry: Entry) {
        if let Some(marked) = self.0.get_mut(at.block) {
            Arc::make_mut(&mut marked.block).replace(at.place, entry);
        }
    }

    /// Puts a pod where [`Self::find`] did not find it, and marks it.
    pub(crate) fn insert(&mut self, at: Position, name: &str, entry: Entry) {
        let at = self.with_room(at);
        if let Some(marked) = self.0.get_mut(at.block) {
            Arc::make_mut(&mut marked.block).insert(at.place, name, entry);
            marked.marks.insert(at.place, true);
        }
    }

    pub(crate) fn remove(&mut self, at: Position) {
        if let Some(marked) = self.0.get_mut(at.block) {
            Arc::make_mut(&mut marked.block).remove(at.place);
            marked.marks.remove(at.place);
            self.tidy(at.block);
        }
    }

    /// Removes what is not marked, and hands it out.
    pub(crate) fn sweep(&mut self, mut each: impl FnMut(&str, &Entry)) {
        for marked in &mut self.0 {
            let Marked { block, marks } = marked;
            if (0..block.len()).all(|place| marks.has(place)) {
                // Nobody else holds it where it has just been filled.
                if let Some(block) = Arc::get_mut(block) {
                    block.shrink();
                }
                continue;
            }
            let (mut kept, mut marks_kept) = (Block::default(), Marks::default());
            for (place, (name, entry)) in block.iter().enumerate() {
                if marks.has(place) {
                    marks_kept.set(kept.len(), true);
                    kept.insert(kept.len(), name, entry.clone());
                } else {
                    each(name, entry);
                }
            }
            kept.shrink();
            *marked = Marked { block: Arc::new(kept), marks: marks_kept };
        }
        self.0.retain(|marked| marked.block.len() > 0);
        for block in (0..self.0.len()).rev() {
            self.tidy(block);
        }
    }

    /// Makes room for one more pod: the block that has it, and its place there.
    fn with_room(&mut self, at: Position) -> Position {
        let Some(marked) = self.0.get_mut(at.block) else {
            self.0.push(Marked { block: Arc::default(), marks: Marks::default() });
            return Position { block: self.0.len() - 1, place: 0 };
        };
        if !marked.block.is_full() {
            return at;
        }
        let next = at.block + 1;
        if at.place == marked.block.len() {
            // A list comes in order: what is full stays so.
            if let Some(block) = Arc::get_mut(&mut marked.block) {
                block.shrink();
            }
            self.0.insert(next, Marked { block: Arc::default(), marks: Marks::default() });
            return Position { block: next, place: 0 };
        }
        let half = MOST / 2;
        let block = Arc::new(Arc::make_mut(&mut marked.block).split_off(half));
        let marks = marked.marks.split_off(half);
        self.0.insert(next, Marked { block, marks });
        match at.place.checked_sub(half) {
            Some(place) => Position { block: next, place },
            None => at,
        }
    }

    /// Drops a block that is empty, or merges one that is small with the next or the one before.
    fn tidy(&mut self, block: usize) {
        let length = |block: usize| self.0.get(block).map(|marked| marked.block.len());
        let Some(own) = length(block) else { return };
        let fits = |other: Option<usize>| other.is_some_and(|other| own + other <= MOST / 2);
        if own == 0 {
            self.0.remove(block);
        } else if own < SMALL && fits(length(block + 1)) {
            self.merge_next(block);
        } else if own < SMALL && block > 0 && fits(length(block - 1)) {
            self.merge_next(block - 1);
        }
    }

    fn merge_next(&mut self, block: usize) {
        let next = self.0.remove(block + 1);
        if let Some(marked) = self.0.get_mut(block) {
            marked.marks.append(marked.block.len(), next.marks);
            Arc::make_mut(&mut marked.block).append(&next.block);
        }
    }

    #[cfg(test)]
    pub(crate) fn lengths(&self) -> Vec<usize> {
        self.0.iter().map(|marked| marked.block.len()).collect()
    }
}
