//! Markup that several pages share: layout, tables, lists, badges, links, and escaping of untrusted text.
//!
//! Each function returns markup for values that a page has read. No part reads the store or knows a request, except
//! `refusal`, which renders an error.

pub(crate) mod attestation;
pub(crate) mod bar_chart;
pub(crate) mod cookie;
pub(crate) mod environment_status;
pub(crate) mod escape;
pub(crate) mod filter;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod list;
pub(crate) mod pagination;
pub(crate) mod refusal;
pub(crate) mod rules;
pub(crate) mod snapshot;
pub(crate) mod urls;
