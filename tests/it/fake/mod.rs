//! Servers that answer as they are told: what a test needs that stalls, resets and lies.
//!
//! Everything listens on loopback, on a port that the system chose, and stops when it is dropped.
//! Nothing here imports what it tests. What holds state is in `daemon`; benches use what is here.

pub mod kube;
pub mod pki;
pub mod pods;
pub mod proxy;
pub mod server;

pub use server::{Reply, Seen, Server};
