//! Tags of environments and flows.

pub(crate) mod operations;
