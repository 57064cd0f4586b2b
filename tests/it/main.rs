//! Tests of the program against fakes, recorded bytes and files, as seen by its users and peers.

#![expect(unreachable_pub, reason = "a test binary has no public API")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "a panic fails the test"
)]

mod fake;
mod program;

#[cfg(feature = "service")]
mod approve;
#[cfg(feature = "service")]
mod assert;
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
mod fuzzing;
#[cfg(target_os = "linux")]
mod idle_connections;
mod namespaces;
mod oidc;
mod permissions;
mod pods_from;
#[cfg(feature = "service")]
mod read;
mod real;
mod recorded;
mod secrets;
mod service;
mod timeouts;
#[cfg(feature = "service")]
mod wait;
mod watch;
