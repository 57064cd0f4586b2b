//! Flows and their templates.

pub(crate) mod operations;
pub(crate) mod template_file;
