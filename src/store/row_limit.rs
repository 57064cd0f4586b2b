//! Lists that may grow without end, cut where they are read.

/// As many of a kind as a page shows at most that is about something else.
pub(super) const MOST: usize = 100;

/// At most so many of a list, and whether there are more.
#[derive(Debug, Clone)]
pub struct AtMost<T> {
    /// Those that come first in its order.
    pub listed: Vec<T>,
    /// Whether the others were left off.
    pub has_more: bool,
}

/// As many rows as have to be asked for: one more than is shown says whether there are more.
pub(super) fn one_more_than(most: usize) -> i64 {
    i64::try_from(most).map_or(i64::MAX, |most| most.saturating_add(1))
}

impl<T> AtMost<T> {
    /// How many are listed, where there are more.
    #[must_use]
    pub fn cut_at(&self) -> Option<usize> {
        self.has_more.then_some(self.listed.len())
    }

    pub(super) fn of(most: usize, mut listed: Vec<T>) -> Self {
        let has_more = listed.len() > most;
        listed.truncate(most);
        Self { listed, has_more }
    }
}
