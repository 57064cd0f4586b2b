//! Derives attestations from files and the environment: test results from JUnit XML, provenance from git and CI.
//!
//! Called by `cli::attest`; the service lists the failed tests of a stored JUnit file with [`junit`].

#[cfg(feature = "agent")]
pub mod junit;
#[cfg(feature = "agent")]
pub mod provenance;
