//! The service as a server: limits, hostile clients, pages and TLS.

pub(crate) mod certificate;
pub(crate) mod chart;
pub(crate) mod fair_share;
pub(crate) mod hostile_input;
pub(crate) mod links;
pub(crate) mod page_errors;
pub(crate) mod pages;
pub(crate) mod rate_limit;
pub(crate) mod request_id;
pub(crate) mod server;
pub(crate) mod slow_clients;
pub(crate) mod tls;
