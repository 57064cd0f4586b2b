//! Kubernetes: the pods of a cluster, or of a file that `kubectl` wrote, as `PodView`s.
//!
//! Called by `agent`. It reads pods and namespaces, and never writes to a cluster.

mod answer;
mod connect;
mod document;
mod error;
mod file;
mod list;
mod messages;
mod namespace;
mod protobuf;

pub use connect::{Access, Cluster, ConnectError};
pub use error::Error;
pub use file::{FileError, PodsFile};
pub use list::Listed;
pub use namespace::Namespace;

use std::time::Duration;

/// How long an API server may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until the headers of an answer.
    pub headers: Duration,
    /// Between two frames of a body.
    pub frame: Duration,
    /// For the text of an error.
    pub error_text: Duration,
}

impl Default for Patience {
    /// 30 s, 60 s, 2 s.
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            frame: Duration::from_mins(1),
            error_text: Duration::from_secs(2),
        }
    }
}
