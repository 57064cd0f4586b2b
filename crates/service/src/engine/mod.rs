//! Evaluation of environments: verdicts, events and notifications that follow from a change, and the audit log.
//!
//! Reports, attestations, approvals, the bootstrap file and the expiry of allow-list entries call it in their transaction.
//! `rules` decides; these modules read the evidence and record the result.

pub(crate) mod log_signer;
pub mod notify;
pub(crate) mod policies;

pub(crate) mod approval;
pub(crate) mod artifact_details;
pub(crate) mod audit;
pub(crate) mod declared;
mod evaluate_artifacts;
pub(crate) mod failed_tests;
pub(crate) mod found_attestations;
pub(crate) mod guard;
pub(crate) mod inputs;
pub(crate) mod not_found;
pub(crate) mod origin;
pub(crate) mod queue;
pub(crate) mod repeated;
pub(crate) mod selected_snapshot;
mod trail_compliance;
