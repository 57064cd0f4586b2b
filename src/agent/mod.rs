//! The agent: pods in, reports out.
//!
//! Called by `cli`, with environments, a place where pods come from, and one where reports go. It
//! joins `cluster` and `api` and never speaks HTTP itself.

pub mod environment;
pub mod gather;
pub mod once;
pub mod retry;
mod summary;

pub use environment::{Emptiness, Environment};
pub use summary::{Outcome, Summary};
