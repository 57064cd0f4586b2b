//! The agent's side of the domain: from a pod of the API server to the bytes of a report.
//!
//! `agent` and `cluster` call these modules. None of them imports [`evidence`](crate::domain::evidence), the service's
//! side; both share [`model`](crate::domain::model).

pub mod cadence;
pub mod collapse;
pub mod confirmation;
pub mod departed_pods;
pub mod departure;
pub mod live_set;
pub mod pod;
pub mod report;
pub mod selection;
pub mod watch;
