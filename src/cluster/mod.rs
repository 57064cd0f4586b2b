//! Kubernetes: the pods of a cluster, or of a file that `kubectl` wrote, as `PodView`s.
//!
//! Called by `agent`. It reads pods and namespaces, and never writes to a cluster.

mod configuration;
mod connect;
mod document;
mod error;
mod event;
mod events;
mod file;
#[cfg(any(feature = "fuzzing", all(test, feature = "service")))]
pub(crate) mod fuzzing;
mod list;
mod messages;
mod namespace;
mod protobuf;
mod read_pause;
mod secrets;
mod status;
mod token_file;
mod transport;
mod unreadable;
mod watch;

pub use configuration::{Access, ConnectError};
pub use connect::{Cluster, Patience};
pub use error::Error;
pub use event::{EventType, Heard};
pub use file::{FileError, PodsFile};
pub use unreadable::{PodName, Unreadable};
