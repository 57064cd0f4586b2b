//! Process infrastructure: logs, files, certificates, git, resource limits, error texts, proxy variables,
//! signals, an HTTP(S) listener, probes and metrics.
//!
//! Called by `main` and by every module that uses a network. Contains nothing about pods, clusters or reports.

pub mod admin;
pub mod certificate_authorities;
pub mod colors;
mod connection;
pub mod error_causes;
pub mod files;
pub mod git;
pub mod listener;
pub mod logs;
pub mod loopback;
pub mod machine;
pub mod metrics;
pub mod own_variables;
pub mod peers;
pub mod proxy;
mod request_heads;
pub mod signals;
pub mod signing;
pub mod tls;
pub mod token_file;
