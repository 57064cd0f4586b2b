//! Background work and facilities of the process: retention, silence of environments, the log of SQLite and the password
//! of PostgreSQL, the admin listener, metrics, the clock, random bytes.
//!
//! `service` starts the tasks and shares the values; no operation runs here.

pub(crate) mod admin;
pub(crate) mod checkpoint;
pub(crate) mod clock;
pub(crate) mod database;
pub(crate) mod lease;
pub(crate) mod metrics;
pub(crate) mod periodic;
pub mod random;
pub(crate) mod retention;
pub(crate) mod silence;
pub(crate) mod token_use;
