//! Pure decisions: functions from values to values.
//!
//! Called by every other layer. Uses no runtime, log, clock, socket, file or environment variable; time is an
//! argument.

pub mod attestation;
pub mod escape;
pub mod evidence;
pub mod failure_log;
pub mod live;
pub mod model;
pub mod retry;
pub mod wait;
pub mod yaml;
