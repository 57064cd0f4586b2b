//! Limits of the service: what is limited, per token, per organization and in total, and how long a request waits.
//!
//! Handlers and pages take a permit here before they read a body or use the store. Nothing here decides what is evaluated or
//! recorded.

pub(crate) mod authentication;
pub(crate) mod keyed_semaphore;
pub(crate) mod organization_lock;
