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

impl DaemonTiming {
    /// The timing with every duration divided by `divisor`.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let minute = Duration::from_mins(1) / divisor;
        Self {
            watch: watch::WatchTiming::scaled(divisor),
            cadence: cadence::CadenceTiming::scaled(divisor),
            lookup_interval: minute,
            reminder_interval: minute,
        }
    }
}
