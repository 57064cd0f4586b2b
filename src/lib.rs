//! supercargo: reports the digests of the images running in a Kubernetes cluster to a supply-chain compliance service.
//!
//! Data flows in one direction: pods, [`cluster`], [`domain`], [`agent`], [`api`], over HTTP to the [`service`], and
//! into its [`store`]. A module imports itself and lower layers, never another module of its own layer;
//! `tests/it/layers.rs` checks this.
//!
//! | layer | modules |
//! |---|---|
//! | 0 | [`domain`]: pure decisions, without runtime, clock or I/O |
//! | 1 | [`process`]: logs, small files, signals, HTTP listener, TLS |
//! | 2 | [`cluster`]: Kubernetes; [`api`]: client of the service; [`store`]: databases of the service |
//! | 3 | [`agent`]: reads pods, reports environments; [`service`]: the service |
//! | 4 | [`cli`]: one file per command |
//! | 5 | `main`: parses arguments, returns an exit code; `fuzzing`: invariants for any bytes, not part of the program |

pub mod domain;

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod api;
#[cfg(feature = "agent")]
pub mod cli;
#[cfg(feature = "agent")]
pub mod cluster;
#[cfg(any(feature = "fuzzing", all(test, feature = "service")))]
pub mod fuzzing;
#[cfg(feature = "agent")]
pub mod process;
#[cfg(feature = "service")]
pub mod service;
#[cfg(feature = "service")]
pub mod store;
