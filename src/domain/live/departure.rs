//! What the live set says of an artifact that is in it no longer.
//!
//! `roster` makes one of each pod that leaves, ends, or is first seen when it has already ended;
//! `witness` keeps those that no accepted report held.

use crate::domain::model::Artifact;

/// A state of the live set. It grows with each artifact that starts, differs or leaves, and with
/// nothing else; zero is the set before anything was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(u64);

/// An artifact that is in the live set no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// As it was last.
    pub artifact: Artifact,
    /// The first revision that held it so. Every report of a later revision, up to its departure, held
    /// it too.
    pub since: Revision,
}

impl Revision {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
