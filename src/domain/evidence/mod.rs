//! The service's side of the domain: from a received report and attestations to verdicts, events and notifications.
//!
//! `service` and `store` call these modules. None of them imports [`live`](crate::domain::live), the agent's side; both
//! share [`model`](crate::domain::model).

pub mod access;
pub mod compliance;
pub mod environment_status;
pub mod event;
pub mod history_coverage;
pub mod notification;
pub mod rate_limit;
pub mod session;
pub mod snapshot;
pub mod validity;
pub mod verdict;
