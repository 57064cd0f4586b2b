//! HTTP of the service: routes, bodies, parameters, errors and responses, without any operation.
//!
//! Operations and pages use these modules. A request passes the access log first, and each error becomes a
//! [`Problem`](problem::Problem).

pub(crate) mod blocking;
pub(crate) mod unknown_fields;

pub(crate) mod access_log;
pub(crate) mod anonymous_requests;
pub(crate) mod body;
mod client_address;
pub(crate) mod context;
pub(crate) mod form;
pub(crate) mod hex_prefix;
pub(crate) mod json;
pub(crate) mod links;
pub(crate) mod openapi;
pub(crate) mod pages;
pub(crate) mod parameters;
pub(crate) mod problem;
mod request_id;
pub(crate) mod response;
pub(crate) mod routes;
pub(crate) mod snapshot_interval;
pub(crate) mod template_file;
