//! Normalizes K8S reports and compares them with the previous one.
//!
//! The service parses and normalizes a body ([`report::NormalizedReport`]), and compares it with the stored running pods
//! and artifacts. Pure: uses no database.

pub mod change;
pub mod report;
