//! The cluster, the endpoint, the process of the daemon and rules of faults that its tests share.

pub(crate) mod cluster;
pub(crate) mod gate;
pub(crate) mod gate_tests;
pub(crate) mod invariants;
#[expect(dead_code, reason = "used by other targets")]
pub(crate) mod process;
pub(crate) mod reported_pod;
pub(crate) mod rules;
pub(crate) mod shop;
