//! Scripted servers and proxies that stall, reset and misbehave, for tests and benches.
//!
//! Everything listens on a loopback port that the system chose, and stops when dropped. This module imports nothing of
//! the program. Stateful fakes are in `daemon`.

pub mod kube;
pub mod pki;
pub mod pods;
pub mod proxy;
pub mod server;

pub use server::{Reply, Request, Server};
