//! Approvals of artifacts for environments.

pub(crate) mod operations;
