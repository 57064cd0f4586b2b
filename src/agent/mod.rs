//! The agent: pods in, reports out.
//!
//! Called by `cli`, with environments, a place where pods come from, and one where reports go: once
//! (`once`), or for as long as it runs (`daemon`). It joins `cluster` and `api` and never speaks HTTP
//! itself.

pub mod daemon;
pub mod environment;
pub mod gather;
mod intake;
pub mod once;
mod plan;
pub mod retry;
mod summary;

pub use environment::Environment;
pub use plan::{OwnPod, Plan};
pub(crate) use summary::counted;
pub use summary::{Outcome, Summary};
