//! Fuzz targets for parsers of input from other machines.
//!
//! A target takes arbitrary bytes and panics if an invariant is violated. libFuzzer runs the targets from `fuzz/`; the
//! tests run them on the committed corpus and on variants of it. The program does not contain them: they need the
//! feature `fuzzing` or a test build.

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
#[cfg(test)]
mod tests;
mod watch;

pub use image::image;
pub use junit::junit;
pub use policy::policy;
pub use report::report;
pub use watch::watch;

use crate::domain::escape::needs_escape;

/// Messages are not empty and contain no line break or terminal control character.
fn assert_printable(text: &str) {
    assert!(!text.is_empty() && !text.contains(needs_escape), "{text:?} must be escaped");
}
