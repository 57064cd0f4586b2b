//! What a process needs whatever it does: logs, small files, files in YAML, bundles of authorities, a working copy,
//! what it may have of the machine, the causes beneath a failure, the proxy variables, signals, a
//! listener for HTTP or HTTPS, and probes and metrics to serve on one.
//!
//! Called by `main` and by every room that talks to a network. It knows nothing of pods, clusters
//! or services.

pub mod admin;
pub mod certificate_authorities;
mod connection;
pub mod error_causes;
pub mod files;
pub mod git;
pub mod listener;
pub mod logs;
pub mod machine;
pub mod metrics;
pub mod peers;
pub mod proxy;
pub mod signals;
pub mod tls;
pub mod yaml;
