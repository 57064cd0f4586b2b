//! Flows and their templates.

pub(crate) mod operations;
