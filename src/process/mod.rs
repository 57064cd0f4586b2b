//! What a process needs before it does anything: logs, the reading of a failure's causes, and
//! of the proxy variables.
//!
//! Called by `main` and by every room that talks to a network. It knows nothing of pods, clusters
//! or services.

pub mod causes;
pub mod logs;
pub mod proxy;
