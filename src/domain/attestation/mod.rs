//! What `attest` derives from files and the environment: test results from JUnit XML, and provenance from git and CI.
//!
//! `cli::attest` calls these modules; the service reads the failed tests of a stored JUnit file with [`junit`].

#[cfg(feature = "agent")]
pub mod junit;
#[cfg(feature = "agent")]
pub mod provenance;
