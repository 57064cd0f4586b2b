//! Actions, and the notifications that they sent.

pub(crate) mod operations;
pub(crate) mod page;
