//! Sessions of browsers, and how they begin and end.

pub(crate) mod provider;
pub(crate) mod sign_in;
