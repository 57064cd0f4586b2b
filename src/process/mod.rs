//! What a process needs whatever it does: logs, small files, the causes beneath a failure, the
//! proxy variables, signals, and a listener for HTTP.
//!
//! Called by `main` and by every room that talks to a network. It knows nothing of pods, clusters
//! or services.

pub mod causes;
#[cfg(feature = "service")]
mod connection;
pub mod files;
#[cfg(feature = "service")]
pub mod listener;
pub mod logs;
pub mod proxy;
#[cfg(feature = "service")]
pub mod signals;
