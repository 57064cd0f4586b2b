//! Limits the length of lists that are shown on a page.

/// Maximum number of rows in a secondary list.
pub(super) const MAX_ROWS: usize = 100;

/// The first rows of a list, up to a limit.
#[derive(Debug, Clone)]
pub struct AtMost<T> {
    /// The rows, in the order of the list.
    pub listed: Vec<T>,
    /// Whether further rows were cut off.
    pub has_more: bool,
}

/// The `LIMIT` of a query: one row more than is shown tells whether there are more.
pub(super) fn one_more_than(limit: usize) -> i64 {
    i64::try_from(limit).map_or(i64::MAX, |limit| limit.saturating_add(1))
}

impl<T> AtMost<T> {
    /// The number of rows if the list was cut.
    #[must_use]
    pub fn cut_at(&self) -> Option<usize> {
        self.has_more.then_some(self.listed.len())
    }

    /// Cuts rows that were selected with [`one_more_than`] the limit.
    pub(super) fn from_rows(limit: usize, mut listed: Vec<T>) -> Self {
        let has_more = listed.len() > limit;
        listed.truncate(limit);
        Self { listed, has_more }
    }
}
