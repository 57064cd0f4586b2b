//! Divides lists into pages, and renders the links between them.

use maud::{Markup, html};

use crate::http::parameters::Parameters;
use crate::http::problem::Problem;

pub(crate) const ROWS_PER_PAGE: usize = 100;

const SNAPSHOTS_PER_PAGE: i64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pagination {
    /// The page number, from 1.
    pub(crate) page: usize,
    /// The number of pages, at least 1.
    pub(crate) pages: usize,
    /// The number of rows on the pages before.
    pub(crate) offset: usize,
}

impl Pagination {
    /// The requested page of a list; the last page if the requested one does not exist.
    pub(crate) fn new(total: usize, per_page: usize, requested: usize) -> Self {
        let pages = total.div_ceil(per_page).max(1);
        let page = requested.clamp(1, pages);
        Self { page, pages, offset: (page - 1) * per_page }
    }

    /// The text ", page 1 of 3" after a count; empty if there is one page.
    pub(crate) fn label(self) -> String {
        if self.pages > 1 { format!(", page {} of {}", self.page, self.pages) } else { String::new() }
    }

    /// Links to the other pages; empty if there is one page.
    pub(crate) fn links(self, url: impl Fn(usize) -> String) -> Markup {
        let Self { page, pages, .. } = self;
        html! {
            @if pages > 1 {
                nav.pages aria-label="Pages" {
                    @if page > 1 {
                        a href=(url(1)) { "First" }
                        a href=(url(page - 1)) rel="prev" { "Previous" }
                    }
                    span { "Page " (page) " of " (pages) }
                    @if page < pages {
                        a href=(url(page + 1)) rel="next" { "Next" }
                        a href=(url(pages)) { "Last" }
                    }
                }
            }
        }
    }
}

/// The page number in a query, 1 by default.
pub(crate) fn requested_page(parameters: &Parameters) -> Result<usize, Problem> {
    let page = parameters.number("page")?.unwrap_or(1);
    Ok(usize::try_from(page).unwrap_or(usize::MAX))
}

/// The requested page of the snapshots `first` to `last`, newest first, and its first and last number.
pub(crate) fn snapshot_page(first: i64, last: i64, requested: usize) -> (Pagination, (i64, i64)) {
    let per_page = usize::try_from(SNAPSHOTS_PER_PAGE).unwrap_or(usize::MAX);
    let pagination =
        Pagination::new(usize::try_from(last - first + 1).unwrap_or_default(), per_page, requested);
    let last = last - i64::try_from(pagination.offset).unwrap_or(i64::MAX);
    (pagination, ((last - SNAPSHOTS_PER_PAGE + 1).max(first), last))
}

pub(crate) fn page_of_snapshot(number: i64, last: i64) -> usize {
    usize::try_from((last - number) / SNAPSHOTS_PER_PAGE).unwrap_or_default() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_after_the_last_becomes_the_last() {
        for (total, requested, expected) in [
            (0, 1, (1, 1, 0)),
            (100, 1, (1, 1, 0)),
            (101, 1, (1, 2, 0)),
            (101, 2, (2, 2, 100)),
            (101, usize::MAX, (2, 2, 100)),
        ] {
            let Pagination { page, pages, offset } = Pagination::new(total, 100, requested);
            assert_eq!((page, pages, offset), expected, "{requested} of {total}");
        }
    }

    #[test]
    fn snapshot_pages_run_from_the_last_to_the_first_available() {
        for (first, last, page, expected) in [
            (1, 1, 1, (1, 1, (1, 1))),
            (1, 20, 1, (1, 1, (1, 20))),
            (1, 21, 1, (1, 2, (2, 21))),
            (1, 21, 2, (2, 2, (1, 1))),
            (1, 21, usize::MAX, (2, 2, (1, 1))),
            (7, 46, 2, (2, 2, (7, 26))),
        ] {
            let (Pagination { page: is, pages, .. }, numbers) = snapshot_page(first, last, page);
            assert_eq!((is, pages, numbers), expected, "{first} to {last}, {page}");
            for number in numbers.0..=numbers.1 {
                assert_eq!(page_of_snapshot(number, last), is, "{number}");
            }
        }
    }
}
