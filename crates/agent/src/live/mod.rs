//! The agent's part of the domain: from a pod of the API server to the bytes of a report.
//!
//! `agent` and `cluster` call these modules. They never import [`evidence`](rules), the
//! service's part; both parts share [`model`](model).

pub mod cadence;
pub mod collapse;
pub mod confirmation;
pub mod departed_pods;
pub mod departure;
pub mod labels;
pub mod live_set;
pub mod pod;
pub mod report;
pub mod selection;
pub mod watch;
