//! Pages of a list (interface, "Pagination").

use serde::Serialize;

/// The requested page: `page` from 1, `per_page` from 1 to 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    number: u32,
    size: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, got {value}")]
pub struct InvalidPage {
    pub parameter: &'static str,
    value: i64,
    expected: &'static str,
}

/// The position of a page in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pagination {
    /// Number of items in the whole list.
    pub total: u64,
    /// Number of this page, from 1.
    pub page: u32,
    /// Maximum number of items on a page.
    pub per_page: u32,
    /// Number of pages.
    pub page_count: u64,
}

impl Default for Page {
    /// The interface's defaults: the first page of 20 items.
    fn default() -> Self {
        Self { number: 1, size: 20 }
    }
}

impl Page {
    /// Checks the query parameters; absent ones get the interface's defaults, 1 and 20.
    ///
    /// # Errors
    ///
    /// [`InvalidPage`] for a page below 1 or a size outside of 1 to 500.
    pub fn new(page: Option<i64>, per_page: Option<i64>) -> Result<Self, InvalidPage> {
        let invalid = |parameter, value, expected| InvalidPage { parameter, value, expected };
        let default = Self::default();
        let (number, size) = (page.unwrap_or(default.number.into()), per_page.unwrap_or(default.size.into()));
        let too_far = invalid("page", number, "a page from 1 to 4294967295");
        let number = u32::try_from(number).ok().filter(|n| *n >= 1).ok_or(too_far)?;
        let too_large = invalid("per_page", size, "1 to 500 items per page");
        let size = u32::try_from(size).ok().filter(|n| (1..=500).contains(n)).ok_or(too_large)?;
        Ok(Self { number, size })
    }

    /// The page's number, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// Number of items before this page.
    #[must_use]
    pub fn offset(self) -> i64 {
        (i64::from(self.number) - 1) * i64::from(self.size)
    }

    #[must_use]
    pub fn size(self) -> i64 {
        i64::from(self.size)
    }

    /// The page's position in a list with `total` items.
    #[must_use]
    pub fn pagination(self, total: u64) -> Pagination {
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
    fn page_outside_of_the_limits_is_rejected() {
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
    fn empty_list_has_no_page_and_the_last_page_may_be_short() {
        let page = Page::new(None, Some(20)).unwrap();
        assert_eq!([0, 1, 20, 21].map(|total| page.pagination(total).page_count), [0, 1, 1, 2]);
    }
}
