//! Attestations, approvals, trails, origins, the log and statements.

pub(crate) mod approvals;
pub(crate) mod approve;
pub(crate) mod attachments;
pub(crate) mod attest;
pub(crate) mod attestation_types;
pub(crate) mod image_index;
pub(crate) mod latest_attestations;
pub(crate) mod log;
pub(crate) mod log_week;
pub(crate) mod packages;
pub(crate) mod provenance;
pub(crate) mod reading_evidence;
pub(crate) mod repeated;
pub(crate) mod signed_evidence;
pub(crate) mod statement;
pub(crate) mod trails_and_attestations;
