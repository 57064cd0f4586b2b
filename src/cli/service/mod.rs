//! The service and the commands of its operators: `serve`, `policy`, `token`, `repository`, `action` and `log`.

pub(crate) mod action;
mod change;
pub(crate) mod environment;
pub(crate) mod issuer;
pub(crate) mod log;
pub(crate) mod policy;
pub(crate) mod repository;
#[cfg(feature = "service")]
pub(crate) mod serve;
pub(crate) mod token;
