//! Computations behind pages: values in, values out, without markup, store or request.
//!
//! A page reads rows from the store, computes with these modules what it shows, and renders the result.

pub(crate) mod changes;
pub(crate) mod running;
pub(crate) mod snapshot_diff;
