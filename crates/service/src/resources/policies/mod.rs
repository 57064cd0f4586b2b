//! Policies and their versions.

pub(crate) mod operations;
pub(crate) mod page;
