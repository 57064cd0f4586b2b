//! The service's data in SQLite or PostgreSQL: one module per resource, with a function per read or write.
//!
//! The service opens a [`Store`] and calls the functions within a [`Transaction`]. The SQL is the same for both databases
//! unless a comment says otherwise. The store makes no decisions: `rules` decides, for example, which pods ended and what
//! a verdict is. Functions return [`Error`] if the database fails.
//!
//! The organization is the first column of the primary key of each table of a tenant, and each statement names it: functions of
//! tenants take a [`Tenant`], a transaction of one organization.
//! Global are `organizations`, `tokens`, `sessions`, `issuers`, `bootstraps` and `leases`: workers list
//! `organizations`, and then work on one at a time.

#![expect(
    clippy::missing_errors_doc,
    reason = "the module documentation describes the error of all functions"
)]

pub mod approvals;
pub mod artifacts;
pub mod attestations;
pub mod audit;
pub mod bootstrap;
pub mod database;
pub mod environments;
pub mod flows;
pub mod idempotency_keys;
pub mod image_indexes;
pub mod log;
pub mod notifications;
pub mod packages;
pub mod policies;
mod precedence;
pub mod provenance;
pub mod quotas;
pub mod repositories;
pub mod retention;
pub mod search;
pub mod tags;
pub mod tokens;
pub mod trails;

pub use database::connect::{PoolSizes, Store};
pub use database::error::Error;
pub use database::id::new_id;
pub use database::leases;
pub use database::row_limit::AtMost;
pub use database::rows::Id;
pub use database::timeouts::{DatabaseTimeouts, MAX_AUTHENTICATION_CONNECTIONS};
pub use database::transaction::{DatabaseTransaction, Tenant, Transaction};
pub use database::url::{DatabaseUrl, InvalidUrl};
