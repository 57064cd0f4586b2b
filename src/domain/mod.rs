//! Where the thinking is: pure functions from values to values.
//!
//! Every other room calls this one. It never sees a runtime, a log, a clock, a socket, a file or
//! an environment variable; time comes in as an argument.

pub mod access;
pub mod cadence;
pub mod collapse;
pub mod compliance;
pub mod confirmation;
pub mod departure;
pub mod event;
pub mod hindsight;
#[cfg(feature = "agent")]
pub mod junit;
pub mod model;
pub mod notification;
pub mod outage;
pub mod outcome;
pub mod pod;
#[cfg(feature = "agent")]
pub mod provenance;
pub mod report;
pub mod roster;
pub mod selection;
pub mod session;
pub mod snapshot;
pub mod standing;
pub mod throttle;
pub mod validity;
pub mod verdict;
pub mod visible;
pub mod waiting;
pub mod watch;
pub mod witness;
