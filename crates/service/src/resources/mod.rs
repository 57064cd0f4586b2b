//! Resources of the service, one module each: the operations of the API and the page.
//!
//! A handler admits the caller, reads the request within its limits, calls `rules` for decisions and `store` to record them;
//! it decides nothing itself. A resource may use the SQL of another, and nothing else of it.

pub(crate) mod access_review;
pub(crate) mod actions;
pub(crate) mod approvals;
pub(crate) mod artifacts;
pub(crate) mod attestations;
pub(crate) mod audit;
pub(crate) mod environments;
pub(crate) mod flows;
pub(crate) mod log;
pub(crate) mod organization;
pub(crate) mod packages;
pub(crate) mod policies;
pub(crate) mod repositories;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod tags;
pub(crate) mod tokens;
pub(crate) mod trails;
