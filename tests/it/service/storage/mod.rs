//! Databases: their faults, locks, costs, replicas and retention, and the bootstrap file.

pub(crate) mod bootstrap;
pub(crate) mod durability;
pub(crate) mod interleavings;
pub(crate) mod postgres;
pub(crate) mod query_cost;
pub(crate) mod replicas;
pub(crate) mod retention;
pub(crate) mod schema;
