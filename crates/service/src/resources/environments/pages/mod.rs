//! Pages of an environment, and what they compute.

pub(crate) mod agents;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod environment;
pub(crate) mod running;
pub(crate) mod snapshot_diff;
pub(crate) mod table;
pub(crate) mod timeline;
