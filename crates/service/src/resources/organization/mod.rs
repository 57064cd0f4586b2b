//! The overview of an organization.

pub(crate) mod page;
