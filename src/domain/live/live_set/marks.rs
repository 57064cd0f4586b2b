//! Which pods of a block the list that is being read has named.
//!
//! A bitmap beside the block and outside of what snapshots share, so that marking copies nothing. It
//! moves with the pods that come and go before others.

/// How many marks there are, and so how many pods a block holds at most.
pub(crate) const MOST: usize = 256;

const BITS: usize = u64::BITS as usize;

/// A mark for each of [`MOST`] places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks([u64; MOST / BITS]);

impl Marks {
    pub(crate) fn has(&self, place: usize) -> bool {
        self.0.get(place / BITS).is_some_and(|word| word >> (place % BITS) & 1 == 1)
    }

    pub(crate) fn set(&mut self, place: usize, is_marked: bool) {
        if let Some(word) = self.0.get_mut(place / BITS) {
            let bit = 1 << (place % BITS);
            *word = if is_marked { *word | bit } else { *word & !bit };
        }
    }

    /// Moves the marks from a place on one place up, and sets that place.
    pub(crate) fn insert(&mut self, place: usize, is_marked: bool) {
        let mut carried = u64::from(is_marked);
        let at = place % BITS;
        let mut below = (1 << at) - 1;
        let mut bit = at;
        for word in self.0.iter_mut().skip(place / BITS) {
            let last = *word >> (BITS - 1);
            *word = (*word & below) | (*word & !below) << 1 | carried << bit;
            (carried, below, bit) = (last, 0, 0);
        }
    }

    /// Moves the marks above a place one place down.
    pub(crate) fn remove(&mut self, place: usize) {
        let mut carried = 0;
        let first = place / BITS;
        for (n, word) in self.0.iter_mut().enumerate().skip(first).rev() {
            let below = if n == first { (1 << (place % BITS)) - 1 } else { 0 };
            let gone = if n == first { 0 } else { *word & 1 };
            *word = (*word & below) | (*word >> 1 & !below) | carried << (BITS - 1);
            carried = gone;
        }
    }

    /// Takes the marks from a place on.
    pub(crate) fn split_off(&mut self, place: usize) -> Self {
        let mut rest = Self::default();
        for n in place..MOST {
            rest.set(n - place, self.has(n));
            self.set(n, false);
        }
        rest
    }

    /// Puts other marks behind the first so many.
    pub(crate) fn append(&mut self, own: usize, other: Self) {
        for n in own..MOST {
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
        fn marks_move_as_the_elements_of_a_vector_do(
            steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0..9), 0..700),
        ) {
            let (mut marks, mut plain) = (Marks::default(), Vec::<bool>::new());
            for (place, is_marked, step) in steps {
                match step {
                    0 if !plain.is_empty() => {
                        let place = place.index(plain.len());
                        marks.set(place, is_marked);
                        plain[place] = is_marked;
                    }
                    1 if !plain.is_empty() => {
                        let place = place.index(plain.len());
                        marks.remove(place);
                        plain.remove(place);
                    }
                    2 => {
                        let place = place.index(plain.len() + 1);
                        let (rest, plain_rest) = (marks.split_off(place), plain.split_off(place));
                        prop_assert!((0..MOST).all(|n| rest.has(n) == plain_rest.get(n).copied().unwrap_or(false)));
                        marks.append(place, rest);
                        plain.extend(plain_rest);
                    }
                    _ if plain.len() < MOST => {
                        let place = place.index(plain.len() + 1);
                        marks.insert(place, is_marked);
                        plain.insert(place, is_marked);
                    }
                    _ => {}
                }
                prop_assert!((0..MOST).all(|n| marks.has(n) == plain.get(n).copied().unwrap_or(false)));
            }
        }
    }
}
