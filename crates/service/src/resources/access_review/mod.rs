//! Who may do what in an environment.

pub(crate) mod operations;
pub(crate) mod page;
