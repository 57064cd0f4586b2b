//! Settings of the daemon: its durations, and whether it reports departed pods.
//!
//! `cli` builds them from the options. Tests scale the durations, so that an outage of an hour takes
//! seconds.

use std::time::Duration;

use crate::live::{cadence, watch};

/// Whether pods that ended since the last accepted report are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackDeparted {
    /// The next report contains them once.
    On,
    /// Reports contain running pods only: `--no-departed-pods`.
    Off,
}

/// Every duration of the daemon.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Durations of lists and watches.
    pub watch: watch::Timing,
    /// Durations of reports.
    pub cadence: cadence::Timing,
    /// Interval between lookups of a namespace that does not exist.
    pub lookup_interval: Duration,
    /// Interval between log lines about a continuing failure.
    pub reminder_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let minute = Duration::from_mins(1);
        Self {
            watch: watch::Timing::default(),
            cadence: cadence::Timing::default(),
            lookup_interval: minute,
            reminder_interval: minute,
        }
    }
}

impl Timing {
    /// The same timing with every duration divided by `factor`.
    #[must_use]
    pub fn scaled(self, factor: u32) -> Self {
        Self {
            watch: self.watch.scaled(factor),
            cadence: self.cadence.scaled(factor),
            lookup_interval: self.lookup_interval / factor,
            reminder_interval: self.reminder_interval / factor,
        }
    }
}
