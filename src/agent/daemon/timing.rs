//! What the daemon goes by: every duration, and whether it witnesses.
//!
//! `cli` makes it from the options. Tests divide the durations, so that an outage of an hour takes
//! seconds.

use std::time::Duration;

use crate::domain::live::{cadence, watch};

/// Whether pods are reported that came and went since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witnessing {
    /// They are, once.
    On,
    /// A report holds strictly what runs: `--no-witness`.
    Off,
}

/// Every duration of the daemon.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Of lists and watches.
    pub watch: watch::Policy,
    /// Of reports.
    pub cadence: cadence::Policy,
    /// From one look for a namespace that is not there to the next.
    pub lookup: Duration,
    /// From one line about a failure that goes on to the next.
    pub remind: Duration,
}

impl Default for Policy {
    /// A minute each, and the defaults of the others.
    fn default() -> Self {
        let minute = Duration::from_mins(1);
        Self {
            watch: watch::Policy::default(),
            cadence: cadence::Policy::default(),
            lookup: minute,
            remind: minute,
        }
    }
}

impl Policy {
    /// The same with every duration so many times shorter.
    #[must_use]
    pub fn hastened(self, times: u32) -> Self {
        Self {
            watch: self.watch.hastened(times),
            cadence: self.cadence.hastened(times),
            lookup: self.lookup / times,
            remind: self.remind / times,
        }
    }
}
