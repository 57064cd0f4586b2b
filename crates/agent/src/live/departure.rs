//! Revisions of the live set, and departures: artifacts that are no longer in it.
//!
//! `live_set` creates a departure for each pod that is deleted, ends, or has already ended when it is first
//! seen; `departed_pods` keeps those that no accepted report contained.

use model::Artifact;

/// A state of the live set. Increases with every artifact that is added, changed or removed, and with every namespace
/// that another environment selects; zero is the empty set at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(u64);

/// An artifact that is no longer in the live set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Its last state.
    pub artifact: Artifact,
    /// The first revision with this state. Every report from this revision until the departure contains it.
    pub since: Revision,
}

impl Revision {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
