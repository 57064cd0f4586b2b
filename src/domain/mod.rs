//! Where the thinking is: pure functions from values to values.
//!
//! Every other room calls this one. It never sees a runtime, a log, a clock, a socket, a file or
//! an environment variable; time comes in as an argument.

pub mod attestation;
pub mod escape;
pub mod evidence;
pub mod failure_log;
pub mod live;
pub mod model;
pub mod retry;
pub mod wait;
