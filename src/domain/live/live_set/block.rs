//! A run of neighbouring pods of one namespace, sorted by name.
//!
//! What a snapshot shares: their names lie in one buffer, and an entry holds only what tells a pod from
//! its like. A block is never empty once it is in the set, and knows nothing of other blocks.

use std::cmp::Ordering;

use super::entry::Entry;
use super::marks::MOST;

/// At most [`MOST`] pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    names: String,
    /// Where each name ends. By itself, since a search looks at nothing else of a pod.
    ends: Vec<usize>,
    entries: Vec<Entry>,
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= MOST
    }

    pub(crate) fn get(&self, place: usize) -> Option<(&str, &Entry)> {
        Some((self.name(place)?, self.entries.get(place)?))
    }

    pub(crate) fn last_name(&self) -> &str {
        self.name(self.len().saturating_sub(1)).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Where a name stands, or where it would.
    pub(crate) fn find(&self, name: &str) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).unwrap_or_default().cmp(name) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Puts another pod into the place of the one of its name.
    pub(crate) fn replace(&mut self, place: usize, entry: Entry) {
        if let Some(old) = self.entries.get_mut(place) {
            *old = entry;
        }
    }

    pub(crate) fn insert(&mut self, place: usize, name: &str, entry: Entry) {
        let start = self.start(place);
        // Little is reserved beyond what is used, since most blocks hardly grow once a list is complete.
        if self.entries.len() == self.entries.capacity() {
            let more = (self.len() / 4).max(8);
            self.ends.reserve_exact(more);
            self.entries.reserve_exact(more);
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len().max(self.names.len() / 4));
        }
        self.names.insert_str(start, name);
        self.entries.insert(place, entry);
        self.ends.insert(place, start);
        for end in self.ends.iter_mut().skip(place) {
            *end += name.len();
        }
    }

    pub(crate) fn remove(&mut self, place: usize) {
        let Some(length) = self.name(place).map(str::len) else { return };
        let start = self.start(place);
        self.names.replace_range(start..start + length, "");
        self.entries.remove(place);
        self.ends.remove(place);
        for end in self.ends.iter_mut().skip(place) {
            *end -= length;
        }
        if self.entries.capacity() > 2 * self.len() + 8 {
            self.shrink();
        }
    }

    /// Takes the pods from a place on.
    pub(crate) fn split_off(&mut self, place: usize) -> Self {
        let start = self.start(place);
        let mut rest = Self {
            names: self.names.split_off(start),
            ends: self.ends.split_off(place),
            entries: self.entries.split_off(place),
        };
        for end in &mut rest.ends {
            *end -= start;
        }
        self.shrink();
        rest
    }

    /// Puts the pods of the next block behind its own.
    pub(crate) fn append(&mut self, next: &Self) {
        let start = self.names.len();
        self.names.reserve_exact(next.names.len());
        self.names.push_str(&next.names);
        self.ends.reserve_exact(next.len());
        self.ends.extend(next.ends.iter().map(|end| end + start));
        self.entries.reserve_exact(next.len());
        self.entries.extend_from_slice(&next.entries);
    }

    /// Gives back memory that was reserved for growth.
    pub(crate) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn name(&self, place: usize) -> Option<&str> {
        self.names.get(self.start(place)..*self.ends.get(place)?)
    }

    /// Where the name of a place begins, or would.
    fn start(&self, place: usize) -> usize {
        place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default()
    }
}
