//! Tables, and the note below a list that was truncated.

use maud::{Markup, html};

/// Maximum number of rows of a list without pagination, for example the suites of an attestation.
pub(crate) const MAX_LISTED: usize = 100;

/// The note below a list that shows the latest rows only.
pub(crate) fn latest_note(cut_at: Option<usize>, what: &str) -> Markup {
    html! { @if let Some(listed) = cut_at { p { "Only the latest " (listed) " " (what) " are shown." } } }
}

/// The note below a list that shows the first rows only.
pub(crate) fn first_note(total: usize, what: &str) -> Markup {
    html! { @if total > MAX_LISTED { p { "Only the first " (MAX_LISTED) " of " (total) " " (what) " are shown." } } }
}

/// The note below a list of the first rows only, whose total is unknown.
pub(crate) fn first_rows_note(cut_at: Option<usize>, what: &str) -> Markup {
    html! { @if let Some(listed) = cut_at { p { "Only the first " (listed) " " (what) " are shown." } } }
}

/// What is missing, and the command that adds it.
pub(crate) fn empty(text: &str, command: &str) -> Markup {
    html! { p { (text) " Next: " code { (command) } } }
}

/// A table that scrolls horizontally if it is wider than the screen.
pub(crate) fn table(label: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide role="region" aria-label=(label) tabindex="0" {
            table {
                caption.visually-hidden { (label) }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { (rows) }
            }
        }
    }
}
