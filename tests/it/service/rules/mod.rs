//! Policies, the gate, and verdicts.

pub(crate) mod asserts;
pub(crate) mod check_policy;
pub(crate) mod compliance;
pub(crate) mod evaluations;
pub(crate) mod operations;
pub(crate) mod policies;
