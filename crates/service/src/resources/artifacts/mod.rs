//! Artifacts: what is known of them, where they run, and whether they may.

pub(crate) mod approval_form;
pub(crate) mod operations;
pub(crate) mod page;
