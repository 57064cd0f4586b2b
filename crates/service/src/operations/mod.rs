//! The operations of the API: one file per operation, or per resource that is listed and read.
//!
//! Each handler admits the caller, reads the request, calls `domain` and `store`, and formats the response. Operations
//! do not call each other; what they share is in `http` and `evaluation`.

pub(crate) mod access_review;
pub(crate) mod actions;
pub(crate) mod agents;
pub(crate) mod allow_list;
pub(crate) mod approvals;
pub(crate) mod approve;
pub(crate) mod artifacts;
pub(crate) mod asserts;
pub(crate) mod attachments;
pub(crate) mod attest;
pub(crate) mod attestations;
pub(crate) mod audit;
pub(crate) mod begin_trail;
pub(crate) mod check_policy;
pub(crate) mod create_environment;
pub(crate) mod diff_snapshots;
pub(crate) mod environment_events;
pub(crate) mod environment_policies;
pub(crate) mod environments;
pub(crate) mod flows;
pub(crate) mod get_snapshot;
pub(crate) mod image_index;
pub(crate) mod live_artifacts;
pub(crate) mod log;
pub(crate) mod policies;
pub(crate) mod report;
pub(crate) mod report_artifact;
pub(crate) mod repositories;
pub(crate) mod search;
pub(crate) mod snapshots;
pub(crate) mod statement;
pub(crate) mod tags;
mod template_file;
pub(crate) mod tokens;
pub(crate) mod trails;
pub(crate) mod user;
