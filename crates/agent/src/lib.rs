//! The agent: reads pods from a cluster and reports them to the service.
//!
//! Called by `cli` for a single run (`once`) or until a signal (`daemon`). Connects `cluster` with the client of the service;
//! contains no HTTP code of its own.

pub mod cluster;
pub mod daemon;
pub mod environment;
pub mod gather;
mod intake;
pub mod live;
pub mod once;
mod plan;
mod summary;

pub use environment::EnvironmentConfig;
pub use plan::{OwnPod, Plan};
pub use summary::{ReportOutcome, Summary};
