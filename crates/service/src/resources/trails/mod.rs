//! Trails of flows.

pub(crate) mod operations;
pub(crate) mod page;
