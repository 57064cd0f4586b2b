//! Fuzz targets for every parser of untrusted input.
//!
//! A target takes arbitrary bytes and panics if an invariant is violated. libFuzzer runs the targets from `fuzz/`; the
//! tests run them on the committed corpus and on variants of it. The program does not contain them: they need the
//! feature `fuzzing` or a test build.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a violated invariant is a finding"
)]

mod attestation;
mod bootstrap;
mod checks;
mod configuration;
mod image;
mod junit;
mod pods;
mod policy;
mod query;
mod report;
#[cfg(test)]
mod tests;

/// Takes arbitrary bytes and panics if an invariant is violated.
pub type Target = fn(&[u8]);

/// Targets by their names in `fuzz/`.
pub const TARGETS: [(&str, Target); 10] = [
    ("bootstrap", bootstrap::target),
    ("configuration", configuration::target),
    ("data_json", attestation::target),
    ("image", image::target),
    ("junit", junit::target),
    ("pods", pods::file_target),
    ("policy", policy::target),
    ("query", query::target),
    ("report", report::target),
    ("watch", pods::watch_target),
];

/// Returns a target by name.
///
/// # Panics
///
/// If the name is unknown.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| unreachable!("unknown target {name}"), |(_, target)| *target)
}
