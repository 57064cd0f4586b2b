//! Approvals of artifacts for environments.

pub(crate) mod operations;
pub(crate) mod page;
