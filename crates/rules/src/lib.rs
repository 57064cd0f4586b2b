//! The service's decisions: from reports and attestations to verdicts, events and notifications.
//!
//! Called by `service` and `store`. Pure: time is an argument.

pub mod absence;
pub mod access_review;
pub mod attestation_type;
#[cfg(feature = "sqlx")]
mod columns;
pub mod compliance;
pub mod environment_status;
pub mod event;
pub mod history_coverage;
pub mod identity;
pub mod notification;
pub mod ownership;
pub mod policy;
pub mod rate_limit;
pub mod session;
pub mod snapshot;
pub mod trust;
pub mod validity;
pub mod verdict;
