//! The service's decisions: from reports and attestations to verdicts, events and notifications.
//!
//! Called by `service` and `store`. Does not import [`live`](crate::domain::live), the agent's side; both use
//! [`model`](crate::domain::model).

pub mod absence;
pub mod access;
pub mod access_review;
pub mod attestation_type;
pub mod compliance;
pub mod envelope;
pub mod environment_status;
pub mod event;
pub mod history_coverage;
pub mod identity;
pub mod log;
pub mod notification;
pub mod owner;
pub mod ownership;
pub mod policy;
pub mod rate_limit;
pub mod reason;
pub mod reporters;
pub mod session;
pub mod snapshot;
pub mod validity;
pub mod verdict;
