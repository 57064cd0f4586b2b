//! Kubernetes client: reads the pods of a cluster, or of a `kubectl` output file, as `PodView`s, and labels of namespaces.
//!
//! Reads pods and namespaces only, and never writes to a cluster. Requests and decoding are our own: kube's typed lists
//! decode whole pods.

mod configuration;
mod connect;
mod credentials;
mod document;
mod error;
mod event;
mod events;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod issuer;
mod kubeconfig;
mod list;
mod messages;
mod namespace;
mod object;
mod protobuf;
mod proxy;
mod read_pause;
mod status;
mod timeouts;
mod tls;
mod transport;
mod unreadable;
mod watch;

pub use configuration::{Access, ConnectError};
pub use connect::Cluster;
pub use error::Error;
pub use event::{EventType, WatchEvent};
pub use file::{FileError, PodsFile};
pub use issuer::{ClusterIssuer, PublicKey};
pub use kubeconfig::insecure::{Insecure, OnInsecure};
pub use timeouts::ClusterTimeouts;
pub use unreadable::{PodName, Unreadable};
