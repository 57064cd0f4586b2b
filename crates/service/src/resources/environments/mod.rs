//! Environments: reports, snapshots, events, policies and tags.

pub(crate) mod operations;
pub(crate) mod pages;
