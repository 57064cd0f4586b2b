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

#[derive(Debug, Clone)]
pub struct DaemonTiming {
    pub watch: watch::WatchTiming,
    pub cadence: cadence::CadenceTiming,
    /// Interval between lookups of a namespace that does not exist.
    pub lookup_interval: Duration,
    pub reminder_interval: Duration,
}

impl Default for DaemonTiming {
    fn default() -> Self {
        let minute = Duration::from_mins(1);
        Self {
            watch: watch::WatchTiming::default(),
            cadence: cadence::CadenceTiming::default(),
            lookup_interval: minute,
            reminder_interval: minute,
        }
    }
}

impl DaemonTiming {
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
