//! A list in pages: which one is asked for, which there are, and the way from one to the others.

use maud::{Markup, html};

use crate::service::http::parameters::Parameters;
use crate::service::http::problem::Problem;

/// How many rows of a table a page has.
pub(crate) const ROWS: usize = 100;

/// How many snapshots a page has.
const SNAPSHOTS: i64 = 20;

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paged {
    /// Which page this is, from 1: the last, where one was asked for that is not there.
    pub(crate) page: usize,
    /// How many there are, at least 1.
    pub(crate) pages: usize,
    /// How many of the list are on those before.
    pub(crate) passed: usize,
}

impl Paged {
    /// The page that is asked for, of a list with so many, at `each` a page.
    pub(crate) fn of(total: usize, each: usize, asked: usize) -> Self {
        let pages = total.div_ceil(each).max(1);
        let page = asked.clamp(1, pages);
        Self { page, pages, passed: (page - 1) * each }
    }

    /// Which page this is, behind something else; nothing where there is only one.
    pub(crate) fn said(self) -> String {
        if self.pages > 1 { format!(", page {} of {}", self.page, self.pages) } else { String::new() }
    }

    /// Links to other pages; nothing where there is only one.
    pub(crate) fn links(self, to: impl Fn(usize) -> String) -> Markup {
        let Self { page, pages, .. } = self;
        html! {
            @if pages > 1 {
                nav.pages aria-label="Pages" {
                    @if page > 1 {
                        a href=(to(1)) { "First" }
                        a href=(to(page - 1)) rel="prev" { "Previous" }
                    }
                    span { "Page " (page) " of " (pages) }
                    @if page < pages {
                        a href=(to(page + 1)) rel="next" { "Next" }
                        a href=(to(pages)) { "Last" }
                    }
                }
            }
        }
    }
}

/// The page that a query asks for: the first, where it asks for none.
pub(crate) fn asked(parameters: &Parameters) -> Result<usize, Problem> {
    let page = parameters.number("page")?.unwrap_or(1);
    Ok(usize::try_from(page).unwrap_or(usize::MAX))
}

/// Which page of the snapshots from one number to another is asked for, the last of them first, and its numbers.
pub(crate) fn snapshots(first: i64, last: i64, asked: usize) -> (Paged, (i64, i64)) {
    let each = usize::try_from(SNAPSHOTS).unwrap_or(usize::MAX);
    let paged = Paged::of(usize::try_from(last - first + 1).unwrap_or_default(), each, asked);
    let last = last - i64::try_from(paged.passed).unwrap_or(i64::MAX);
    (paged, ((last - SNAPSHOTS + 1).max(first), last))
}

/// The page that a snapshot is on.
pub(crate) fn page_of_snapshot(number: i64, last: i64) -> usize {
    usize::try_from((last - number) / SNAPSHOTS).unwrap_or_default() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_there_is_the_last() {
        for (total, asked, expected) in [
            (0, 1, (1, 1, 0)),
            (100, 1, (1, 1, 0)),
            (101, 1, (1, 2, 0)),
            (101, 2, (2, 2, 100)),
            (101, usize::MAX, (2, 2, 100)),
        ] {
            let Paged { page, pages, passed } = Paged::of(total, 100, asked);
            assert_eq!((page, pages, passed), expected, "{asked} of {total}");
        }
    }

    #[test]
    fn pages_go_from_the_last_snapshot_to_the_first_that_is_kept() {
        for (first, last, page, expected) in [
            (1, 1, 1, (1, 1, (1, 1))),
            (1, 20, 1, (1, 1, (1, 20))),
            (1, 21, 1, (1, 2, (2, 21))),
            (1, 21, 2, (2, 2, (1, 1))),
            (1, 21, usize::MAX, (2, 2, (1, 1))),
            (7, 46, 2, (2, 2, (7, 26))),
        ] {
            let (Paged { page: is, pages, .. }, numbers) = snapshots(first, last, page);
            assert_eq!((is, pages, numbers), expected, "{first} to {last}, {page}");
            for number in numbers.0..=numbers.1 {
                assert_eq!(page_of_snapshot(number, last), is, "{number}");
            }
        }
    }
}
