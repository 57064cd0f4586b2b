//! supercargo: which image digests run in a Kubernetes cluster, reported as evidence.
//!
//! Data flows one way: pods, [`cluster`], [`domain`], [`agent`], [`api`], over HTTP to the
//! [`service`], and into its [`store`]. A room imports itself and lower floors, never a sibling on its own floor;
//! `tests/it/house.rs` checks that.
//!
//! | floor | rooms |
//! |---|---|
//! | 0 | [`domain`]: where the thinking is; no runtime, clock or I/O |
//! | 1 | [`process`]: what a process needs whatever it does: logs, small files, signals, a listener |
//! | 2 | [`cluster`]: Kubernetes; [`api`]: the client of the service; [`store`]: its databases |
//! | 3 | [`agent`]: pods in, reports out; [`service`]: the service itself |
//! | 4 | [`cli`]: a file a command |
//! | 5 | `main`: arguments in, exit code out; `fuzzing`: what is true of any bytes, no part of the program |

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
