//! Attestations, and the files attached to them.

pub(crate) mod operations;
pub(crate) mod page;
