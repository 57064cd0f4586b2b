//! A block of consecutive pods of one namespace, sorted by name; snapshots share it.
//!
//! All names are in one buffer, and an [`Entry`] contains only the data that differs between similar pods.
//! Blocks in the live set are never empty.

use std::cmp::Ordering;

use super::entry::Entry;

/// Maximum number of pods in a block.
pub(super) const MAX_PODS: usize = 256;

/// At most [`MAX_PODS`] pods.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    names: String,
    /// End of each name. Separate from the entries because a search reads only names.
    ends: Vec<usize>,
    entries: Vec<Entry>,
}

impl Block {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_PODS
    }

    pub(super) fn get(&self, index: usize) -> Option<(&str, &Entry)> {
        Some((self.name(index)?, self.entries.get(index)?))
    }

    pub(super) fn last_name(&self) -> &str {
        self.name(self.len().saturating_sub(1)).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The index of a name, or the index at which to insert it.
    pub(super) fn find(&self, name: &str) -> Result<usize, usize> {
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

    pub(super) fn replace(&mut self, index: usize, entry: Entry) {
        if let Some(old) = self.entries.get_mut(index) {
            *old = entry;
        }
    }

    pub(super) fn insert(&mut self, index: usize, name: &str, entry: Entry) {
        let start = self.start(index);
        // Reserve little: most blocks hardly grow once a list is complete.
        if self.entries.len() == self.entries.capacity() {
            let more = (self.len() / 4).max(8);
            self.ends.reserve_exact(more);
            self.entries.reserve_exact(more);
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len().max(self.names.len() / 4));
        }
        self.names.insert_str(start, name);
        self.entries.insert(index, entry);
        self.ends.insert(index, start);
        for end in self.ends.iter_mut().skip(index) {
            *end += name.len();
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        let Some(length) = self.name(index).map(str::len) else { return };
        let start = self.start(index);
        self.names.replace_range(start..start + length, "");
        self.entries.remove(index);
        self.ends.remove(index);
        for end in self.ends.iter_mut().skip(index) {
            *end -= length;
        }
        if self.entries.capacity() > 2 * self.len() + 8 {
            self.shrink();
        }
    }

    pub(super) fn split_off(&mut self, index: usize) -> Self {
        let start = self.start(index);
        let mut rest = Self {
            names: self.names.split_off(start),
            ends: self.ends.split_off(index),
            entries: self.entries.split_off(index),
        };
        for end in &mut rest.ends {
            *end -= start;
        }
        self.shrink();
        rest
    }

    pub(super) fn append(&mut self, next: &Self) {
        let start = self.names.len();
        self.names.reserve_exact(next.names.len());
        self.names.push_str(&next.names);
        self.ends.reserve_exact(next.len());
        self.ends.extend(next.ends.iter().map(|end| end + start));
        self.entries.reserve_exact(next.len());
        self.entries.extend_from_slice(&next.entries);
    }

    /// Releases memory reserved for growth.
    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn name(&self, index: usize) -> Option<&str> {
        self.names.get(self.start(index)..*self.ends.get(index)?)
    }

    /// Start of the name at `index`.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default()
    }
}
