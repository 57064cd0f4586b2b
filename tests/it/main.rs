//! The program against fakes, recorded bytes and files: what a user or a peer sees.

#![expect(unreachable_pub, reason = "nothing here has an outside")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod fake;
mod program;

#[cfg(feature = "service")]
mod attest;
mod client;
mod cluster;
mod command_line;
mod daemon;
#[cfg(feature = "service")]
mod demo;
#[cfg(feature = "service")]
mod documents;
mod endpoint;
mod faults;
mod house;
mod kubeconfig;
mod namespaces;
mod patience;
mod pods_from;
#[cfg(feature = "service")]
mod read;
mod real;
mod recorded;
mod rights;
mod roads;
mod secrets;
mod service;
#[cfg(feature = "service")]
mod wait;
mod watch;
