//! Limits the length of lists that are shown on a page, and the size of pages of lists.

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

use crate::Error;

/// Maximum number of rows in a secondary list.
pub(crate) const MAX_ROWS: usize = 100;

/// The first rows of a list, up to a limit.
#[derive(Debug, Clone)]
pub struct AtMost<T> {
    /// The rows, in the order of the list.
    pub listed: Vec<T>,
    /// Whether further rows were cut off.
    pub has_more: bool,
}

impl<T> Default for AtMost<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), has_more: false }
    }
}

/// The `LIMIT` of a query: one row more than is shown tells whether there are more.
pub(crate) fn one_more_than(limit: usize) -> i64 {
    i64::try_from(limit).map_or(i64::MAX, |limit| limit.saturating_add(1))
}

impl<T> AtMost<T> {
    /// The number of rows if the list was cut.
    #[must_use]
    pub fn cut_at(&self) -> Option<usize> {
        self.has_more.then_some(self.listed.len())
    }

    /// Cuts rows that were selected with [`one_more_than`] the limit.
    pub(crate) fn from_rows(limit: usize, mut listed: Vec<T>) -> Self {
        let has_more = listed.len() > limit;
        listed.truncate(limit);
        Self { listed, has_more }
    }
}

/// What the rows of a page may still have as JSON, in bytes.
pub(crate) struct PageBudget(u64);

impl PageBudget {
    /// Enough for 20 attestations, the default, of maximum size.
    pub(crate) fn of_page() -> Self {
        Self(20_000_000)
    }

    pub(crate) fn unlimited() -> Self {
        Self(u64::MAX)
    }

    /// Reads rows one by one. Their column `size` is an upper bound of their size as JSON, in bytes.
    ///
    /// # Errors
    ///
    /// Returns [`Error::PageTooLarge`] at the first row that exceeds the budget: truncating the page would make the rest
    /// unreachable.
    pub(crate) async fn read<R: Row, T: for<'r> FromRow<'r, R>>(
        &mut self,
        mut rows: BoxStream<'_, sqlx::Result<R>>,
    ) -> Result<Vec<T>, Error>
    where
        &'static str: ColumnIndex<R>,
        i64: for<'r> Decode<'r, R::Database> + Type<R::Database>,
    {
        let mut read = Vec::new();
        while let Some(row) = rows.try_next().await? {
            let size: i64 = row.try_get("size")?;
            self.0 = self.0.checked_sub(size.unsigned_abs()).ok_or(Error::PageTooLarge)?;
            read.push(T::from_row(&row)?);
        }
        Ok(read)
    }
}
