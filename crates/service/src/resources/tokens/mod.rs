//! Tokens, and their user.

pub(crate) mod operations;
pub(crate) mod user;
