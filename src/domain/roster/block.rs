//! A run of neighbouring pods of one namespace, sorted by name.
//!
//! What a snapshot shares: their names lie in one buffer, and an entry holds only what tells a pod from
//! its like. A block is never empty once it is in the set, and knows nothing of other blocks.

use std::cmp::Ordering;

use super::entry::Entry;
use super::marks::MOST;

/// At most [`MOST`] pods.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    names: String,
    entries: Vec<Entry>,
}

impl Block {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MOST
    }

    pub(super) fn get(&self, place: usize) -> Option<(&str, &Entry)> {
        let entry = self.entries.get(place)?;
        Some((self.names.get(self.start(place)..entry.name_end)?, entry))
    }

    pub(super) fn last_name(&self) -> &str {
        self.name(self.len().saturating_sub(1))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Where a name stands, or where it would.
    pub(super) fn find(&self, name: &str) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).cmp(name) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Puts another pod into the place of the one of its name.
    pub(super) fn replace(&mut self, place: usize, entry: Entry) {
        if let Some(old) = self.entries.get_mut(place) {
            *old = Entry { name_end: old.name_end, ..entry };
        }
    }

    pub(super) fn insert(&mut self, place: usize, name: &str, entry: Entry) {
        let start = self.start(place);
        // Little is reserved beyond what is used, since most blocks hardly grow once a list is complete.
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((self.len() / 4).max(8));
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len().max(self.names.len() / 4));
        }
        self.names.insert_str(start, name);
        self.entries.insert(place, Entry { name_end: start, ..entry });
        for entry in self.entries.iter_mut().skip(place) {
            entry.name_end += name.len();
        }
    }

    pub(super) fn remove(&mut self, place: usize) {
        let Some((name, entry)) = self.get(place) else { return };
        let (end, length) = (entry.name_end, name.len());
        self.names.replace_range(end - length..end, "");
        self.entries.remove(place);
        for entry in self.entries.iter_mut().skip(place) {
            entry.name_end -= length;
        }
        if self.entries.capacity() > 2 * self.len() + 8 {
            self.shrink();
        }
    }

    /// Takes the pods from a place on.
    pub(super) fn split_off(&mut self, place: usize) -> Self {
        let start = self.start(place);
        let mut rest = Self { names: self.names.split_off(start), entries: self.entries.split_off(place) };
        for entry in &mut rest.entries {
            entry.name_end -= start;
        }
        self.shrink();
        rest
    }

    /// Puts the pods of the next block behind its own.
    pub(super) fn append(&mut self, next: &Self) {
        let start = self.names.len();
        self.names.reserve_exact(next.names.len());
        self.names.push_str(&next.names);
        self.entries.reserve_exact(next.len());
        self.entries.extend(next.entries.iter().map(|e| Entry { name_end: e.name_end + start, ..e.clone() }));
    }

    /// Gives back memory that was reserved for growth.
    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn name(&self, place: usize) -> &str {
        self.get(place).map_or("", |(name, _)| name)
    }

    /// Where the name of a place begins, or would.
    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).and_then(|before| self.entries.get(before)).map_or(0, |e| e.name_end)
    }
}
