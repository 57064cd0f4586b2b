//! Fuzz targets for parsers of input from other machines.
//!
//! A target takes arbitrary bytes and panics if an invariant is violated. libFuzzer runs the targets with the feature
//! `libfuzzer`; `tests/it/fuzzing.rs` runs them on the committed corpus and on variants of it.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a violated invariant is a finding"
)]

mod image;
mod junit;
mod policy;
mod report;
mod watch;

pub use image::image;
pub use junit::junit;
pub use policy::policy;
pub use report::report;
pub use watch::watch;

use model::escape::needs_escape;

/// Messages are not empty and contain no line break or terminal control character.
fn assert_printable(text: &str) {
    assert!(!text.is_empty() && !text.contains(needs_escape), "{text:?} must be escaped");
}
