//! The way from one page of a list to the others.

use maud::{Markup, html};

/// Links to other pages; nothing where there is only one.
pub(super) fn pages(page: usize, pages: usize, to: impl Fn(usize) -> String) -> Markup {
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
