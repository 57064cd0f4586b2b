//! The commands of a pipeline: `attest`, `wait`, `assert`, `approve` and `approval`.

pub(crate) mod approval;
pub(crate) mod approve;
pub(crate) mod assert;
pub(crate) mod attest;
pub(crate) mod wait;
