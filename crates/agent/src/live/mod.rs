//! The agent's decisions: from a pod of the API server to the bytes of a report.
//!
//! `daemon`, `once` and `cluster` call these modules. Pure: no runtime, log, clock, file or socket.

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
