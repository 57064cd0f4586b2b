//! Both databases behind one [`Transaction`](transaction::Transaction): connections, timeouts, macros for statements, and
//! conversions of columns and rows.
//!
//! Queries do not scan ended rows. Without table statistics, SQLite chooses the index with more matching columns, so a
//! new index can slow down an existing query; `CROSS JOIN` makes it read the tables in the written order.
//! `query_cost.rs` of the tests counts the steps of each query.

pub(crate) mod columns;
pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod from_row;
pub(crate) mod id;
pub mod leases;
pub(crate) mod like_pattern;
pub(crate) mod migrations;
pub(crate) mod pending_log;
pub(crate) mod postgres;
pub(crate) mod row_limit;
pub(crate) mod rows;
pub(crate) mod sqlite;
pub(crate) mod timeouts;
pub(crate) mod transaction;
pub(crate) mod url;
