//! The tamper-evident log.

pub(crate) mod operations;
