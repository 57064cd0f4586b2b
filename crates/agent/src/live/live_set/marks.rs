//! Marks of a block: the pods that the current list contains.
//!
//! A bitmap outside of the block that snapshots share, so that marking copies nothing. Insertions and
//! removals shift it like the pods.

/// Maximum number of pods in a block, and size of the bitmap.
pub(super) const MAX_PODS: usize = 256;

const BITS: usize = u64::BITS as usize;

/// One mark for each of [`MAX_PODS`] positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks([u64; MAX_PODS / BITS]);

impl Marks {
    pub(super) fn has(&self, index: usize) -> bool {
        self.0.get(index / BITS).is_some_and(|word| word >> (index % BITS) & 1 == 1)
    }

    pub(super) fn set(&mut self, index: usize, is_marked: bool) {
        if let Some(word) = self.0.get_mut(index / BITS) {
            let bit = 1 << (index % BITS);
            *word = if is_marked { *word | bit } else { *word & !bit };
        }
    }

    /// Shifts the marks from `index` on up by one, and sets the mark at `index`.
    pub(super) fn insert(&mut self, index: usize, is_marked: bool) {
        let mut carry = u64::from(is_marked);
        let at = index % BITS;
        let mut below = (1 << at) - 1;
        let mut bit = at;
        for word in self.0.iter_mut().skip(index / BITS) {
            let last = *word >> (BITS - 1);
            *word = (*word & below) | (*word & !below) << 1 | carry << bit;
            (carry, below, bit) = (last, 0, 0);
        }
    }

    /// Shifts the marks above `index` down by one.
    pub(super) fn remove(&mut self, index: usize) {
        let mut carry = 0;
        let first = index / BITS;
        for (n, word) in self.0.iter_mut().enumerate().skip(first).rev() {
            let below = if n == first { (1 << (index % BITS)) - 1 } else { 0 };
            let lowest = if n == first { 0 } else { *word & 1 };
            *word = (*word & below) | (*word >> 1 & !below) | carry << (BITS - 1);
            carry = lowest;
        }
    }

    pub(super) fn split_off(&mut self, index: usize) -> Self {
        let mut rest = Self::default();
        for n in index..MAX_PODS {
            rest.set(n - index, self.has(n));
            self.set(n, false);
        }
        rest
    }

    /// Appends other marks after the first `own` ones.
    pub(super) fn append(&mut self, own: usize, other: Self) {
        for n in own..MAX_PODS {
            self.set(n, other.has(n - own));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_shift_like_elements_of_a_vector(
            steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0..9), 0..700),
        ) {
            let (mut marks, mut plain) = (Marks::default(), Vec::<bool>::new());
            for (index, is_marked, step) in steps {
                match step {
                    0 if !plain.is_empty() => {
                        let index = index.index(plain.len());
                        marks.set(index, is_marked);
                        plain[index] = is_marked;
                    }
                    1 if !plain.is_empty() => {
                        let index = index.index(plain.len());
                        marks.remove(index);
                        plain.remove(index);
                    }
                    2 => {
                        let index = index.index(plain.len() + 1);
                        let (rest, plain_rest) = (marks.split_off(index), plain.split_off(index));
                        prop_assert!((0..MAX_PODS).all(|n| rest.has(n) == plain_rest.get(n).copied().unwrap_or(false)));
                        marks.append(index, rest);
                        plain.extend(plain_rest);
                    }
                    _ if plain.len() < MAX_PODS => {
                        let index = index.index(plain.len() + 1);
                        marks.insert(index, is_marked);
                        plain.insert(index, is_marked);
                    }
                    _ => {}
                }
                prop_assert!((0..MAX_PODS).all(|n| marks.has(n) == plain.get(n).copied().unwrap_or(false)));
            }
        }
    }
}
