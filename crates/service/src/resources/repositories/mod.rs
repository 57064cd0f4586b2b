//! Repositories.

pub(crate) mod operations;
