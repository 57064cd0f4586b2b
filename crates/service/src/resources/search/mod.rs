//! Search by the start of a digest or commit hash, or by a text.

pub(crate) mod operations;
pub(crate) mod page;
pub(crate) mod results;
