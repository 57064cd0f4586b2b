//! What the service keeps, in SQLite or PostgreSQL: a file a resource.
//!
//! The service opens a [`Store`] and calls one function for each thing that it reads or records, within
//! a [`Transaction`]. The SQL is the same for both databases but where a comment says so. It decides
//! nothing: which pods ended or what a verdict is comes from `domain`.

pub mod access;
pub mod actions;
pub mod approvals;
pub mod artifacts;
pub mod attestations;
pub mod attested_artifacts;
mod audit;
pub mod bootstrap;
mod columns;
mod connect;
pub mod deliveries;
pub mod environment_contents;
mod error;
pub mod events;
pub mod evidence;
mod like_pattern;
pub mod live;
pub mod outbox;
pub mod overview;
pub mod reports;
mod repositories;
pub mod retention;
mod row_limit;
mod rows;
mod runs;
pub mod search;
pub mod sessions;
pub mod timeline;
pub mod trails;
mod transaction;
mod url;
pub mod verdicts;

pub use connect::{Patience, Store};
pub use error::Error;
pub use row_limit::AtMost;
pub use transaction::Transaction;
pub use url::{DatabaseUrl, InvalidUrl};
