//! Pages of a list (interface, "Pagination").

use serde::Serialize;

/// Which page is asked for: `page` from 1, `per_page` from 1 to 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    number: u32,
    size: u32,
}

/// A page that cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value} is out of range; {expected}")]
pub struct InvalidPage {
    /// The query parameter.
    pub parameter: &'static str,
    value: i64,
    expected: &'static str,
}

/// Where a page lies in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
pub struct Pagination {
    /// How many items the whole list has.
    pub total: u64,
    /// Which page this is, from 1.
    pub page: u32,
    /// How many items a page holds at most.
    pub per_page: u32,
    /// How many pages the list has.
    pub page_count: u64,
}

impl Default for Page {
    /// The interface's defaults: the first page, of 20.
    fn default() -> Self {
        Self { number: 1, size: 20 }
    }
}

impl Page {
    /// Checks what was asked for; absent values are the interface's defaults, 1 and 20.
    ///
    /// # Errors
    ///
    /// [`InvalidPage`] for a page below 1 or a size that is not 1 to 500.
    pub fn new(page: Option<i64>, per_page: Option<i64>) -> Result<Self, InvalidPage> {
        let wrong = |parameter, value, expected| InvalidPage { parameter, value, expected };
        let default = Self::default();
        let (number, size) = (page.unwrap_or(default.number.into()), per_page.unwrap_or(default.size.into()));
        let too_far = wrong("page", number, "a page from 1 to 4294967295 was expected");
        let number = u32::try_from(number).ok().filter(|n| *n >= 1).ok_or(too_far)?;
        let too_large = wrong("per_page", size, "1 to 500 items a page were expected");
        let size = u32::try_from(size).ok().filter(|n| (1..=500).contains(n)).ok_or(too_large)?;
        Ok(Self { number, size })
    }

    /// Which one it is, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// How many items stand before this page.
    #[must_use]
    pub fn offset(self) -> i64 {
        (i64::from(self.number) - 1) * i64::from(self.size)
    }

    /// How many items it holds at most.
    #[must_use]
    pub fn size(self) -> i64 {
        i64::from(self.size)
    }

    /// Where it lies in a list of so many.
    #[must_use]
    pub fn of(self, total: u64) -> Pagination {
        Pagination {
            total,
            page: self.number,
            per_page: self.size,
            page_count: total.div_ceil(u64::from(self.size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_from_one_and_hold_up_to_500() {
        assert_eq!(Page::new(None, None).unwrap(), Page { number: 1, size: 20 });
        assert_eq!(Page::new(Some(3), Some(500)).unwrap().offset(), 1_000);
        for (page, per_page, parameter) in [
            (Some(0), None, "page"),
            (Some(-1), None, "page"),
            (Some(i64::MAX), None, "page"),
            (None, Some(0), "per_page"),
            (None, Some(501), "per_page"),
        ] {
            assert_eq!(Page::new(page, per_page).unwrap_err().parameter, parameter);
        }
    }

    #[test]
    fn the_last_page_may_be_short_and_an_empty_list_has_none() {
        let page = Page::new(None, Some(20)).unwrap();
        assert_eq!([0, 1, 20, 21].map(|total| page.of(total).page_count), [0, 1, 1, 2]);
    }
}
