//! Stores evidence in SQLite or PostgreSQL: one file per resource.
//!
//! The service opens a [`Store`] and calls one function per read or write, within a [`Transaction`]. The SQL is the
//! same for both databases unless a comment says otherwise. The store makes no decisions: `domain` decides, for
//! example, which pods ended and what a verdict is. Its functions return [`Error`] if the database fails.

#![expect(
    clippy::missing_errors_doc,
    reason = "the module documentation describes the error of all functions"
)]

pub mod access;
pub mod actions;
pub mod allow_list;
pub mod approvals;
pub mod artifact_flows;
pub mod artifacts;
mod attachments;
pub mod attestation_details;
pub mod attestation_lists;
pub mod attestations;
pub mod audit;
pub mod begun_trails;
pub mod bootstrap;
mod columns;
mod connect;
pub mod creations;
pub mod deliveries;
pub mod environment_contents;
pub mod environments;
mod error;
pub mod evaluation_queue;
pub mod events;
pub mod evidence;
pub mod flows;
mod from_row;
pub mod image_indexes;
pub mod issuers;
mod latest_attestations;
mod leases;
mod like_pattern;
pub mod live;
pub mod log;
mod migrations;
pub mod outbox;
pub mod policies;
pub mod policy_summaries;
mod postgres_pools;
pub mod provenance;
pub mod reported_artifacts;
pub mod reporters;
pub mod reports;
pub mod repositories;
pub mod retention;
mod row_limit;
mod rows;
mod runs;
pub mod search;
pub mod sessions;
pub mod silence;
mod sqlite_pools;
pub mod tags;
pub mod timeline;
mod timeouts;
mod tokens;
mod trail_compliance;
pub mod trails;
mod transaction;
mod url;
pub mod verdicts;

pub use connect::{PoolSizes, Store};
pub use error::Error;
pub use row_limit::AtMost;
pub use rows::Id;
pub use timeouts::{MAX_AUTHENTICATION_CONNECTIONS, Timeouts};
pub use transaction::{DatabaseTransaction, Transaction};
pub use url::{DatabaseUrl, InvalidUrl};
