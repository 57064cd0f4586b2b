//! What is read of what others wrote, and what has to be true whatever it is.
//!
//! Each target takes any bytes and panics where something is not as it has to be. `fuzz/` has libFuzzer look for such
//! bytes, and the test below goes through those that it found worth keeping, and through variants of them. It is no
//! part of the program: it comes with the feature `fuzzing`, and with the tests.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what is not as it has to be is a finding"
)]

mod attestation;
mod bootstrap;
mod configuration;
mod image;
mod junit;
mod pods;
mod query;
mod report;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::domain::escape::is_steering;

/// Takes any bytes, and panics where something is not as it has to be.
pub type Target = fn(&[u8]);

/// The targets, by their names in `fuzz/`.
pub const TARGETS: [(&str, Target); 9] = [
    ("bootstrap", bootstrap::target),
    ("configuration", configuration::target),
    ("data_json", attestation::target),
    ("image", image::target),
    ("junit", junit::target),
    ("pods", pods::of_file),
    ("query", query::target),
    ("report", report::target),
    ("watch", pods::of_watch),
];

/// The target of this name.
///
/// # Panics
///
/// Where there is none.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| unreachable!("there is no target {name}"), |(_, target)| *target)
}

/// Hands out a file that holds these bytes.
fn in_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
    }
    FILE.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| NamedTempFile::new().expect("a file for the bytes"));
        std::fs::write(file.path(), bytes).expect("bytes in a file");
        read(file.path())
    })
}

/// Holds what a person is told to one line that steers nothing.
fn is_told(text: &str) {
    assert!(!text.is_empty() && !text.contains(is_steering), "{text:?} is shown to people");
}
