//! The program: the commands, the demo, and where an attestation comes from.
//!
//! The architecture is in `crates`; ARCHITECTURE.md is a map of it.

pub mod cli;
pub mod provenance;
