//! What may be long: tables, and what stands below a list that was cut.

use maud::{Markup, html};

/// As many as are listed of what has no pages: what one attestation names, its suites, what counts for a trail.
pub(crate) const LISTED: usize = 100;

/// Says that there is more than is shown.
pub(crate) fn more(cut_at: Option<usize>, what: &str) -> Markup {
    html! { @if let Some(listed) = cut_at { p { "There are more: these are the latest " (listed) " " (what) "." } } }
}

/// Says how many there are where not all are listed.
pub(crate) fn first(all: usize, what: &str) -> Markup {
    html! { @if all > LISTED { p { "These are the first " (LISTED) " of " (all) " " (what) "." } } }
}

/// A table that scrolls by itself where it is wider than the screen.
pub(crate) fn table(label: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide role="region" aria-label=(label) tabindex="0" {
            table {
                caption.unseen { (label) }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { (rows) }
            }
        }
    }
}
