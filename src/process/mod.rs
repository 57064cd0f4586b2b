//! What a process needs before it does anything: logs, small files, the causes beneath a
//! failure, and the proxy variables.
//!
//! Called by `main` and by every room that talks to a network. It knows nothing of pods, clusters
//! or services.

pub mod causes;
pub mod files;
pub mod logs;
pub mod proxy;
