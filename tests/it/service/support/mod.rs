//! A service and its database for a test, and clients for its pages.

pub(crate) mod browser;
pub(crate) mod database;
pub(crate) mod markup;
pub(crate) mod process;
pub(crate) mod test_service;
