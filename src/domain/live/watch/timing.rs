//! How long a watch waits, and for what: every duration of the machine.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::domain::retry::Backoff;

/// The durations and choices of a [`Watch`](super::Watch).
#[derive(Debug, Clone)]
pub struct Policy {
    /// Whether streaming lists are asked for.
    pub streaming: Streaming,
    /// The longest silence amid a streaming list.
    pub stream_silence: Duration,
    /// The longest silence amid a page.
    pub page_silence: Duration,
    /// The longest silence of a watch. The API server sends a bookmark about once a minute.
    pub watch_silence: Duration,
    /// After so long without contact the set is listed, as soon as the server answers: a watch that goes on
    /// may be silent for a while although nothing is wrong.
    pub lost: Duration,
    /// The time from one list to the next while nothing else asks for one; each is taken at random, up
    /// to a quarter shorter or longer.
    pub relist: Duration,
    /// After how many seconds the API server is asked to end a watch, at random.
    pub timeout_seconds: RangeInclusive<u32>,
    /// Between two tries of what failed.
    pub backoff: Backoff,
}

/// Whether the API server may be asked for streaming lists (Kubernetes documentation, "Kubernetes API
/// Concepts", Streaming lists).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// They are tried first.
    Tried,
    /// All lists are paged.
    Never,
}

impl Default for Policy {
    /// Streaming; 30 s, 60 s, 100 s; 4 min; 6 h; 240 to 300; 1 s to 60 s.
    fn default() -> Self {
        Self {
            streaming: Streaming::Tried,
            stream_silence: Duration::from_secs(30),
            page_silence: Duration::from_mins(1),
            watch_silence: Duration::from_secs(100),
            lost: Duration::from_mins(4),
            relist: Duration::from_hours(6),
            timeout_seconds: 240..=300,
            backoff: Backoff::default(),
        }
    }
}

impl Policy {
    /// The same with every duration so many times shorter; what an API server is asked for stays at
    /// least a second.
    #[must_use]
    pub fn hastened(self, times: u32) -> Self {
        let seconds = |seconds: &u32| (seconds / times).max(1);
        Self {
            stream_silence: self.stream_silence / times,
            page_silence: self.page_silence / times,
            watch_silence: self.watch_silence / times,
            lost: self.lost / times,
            relist: self.relist / times,
            timeout_seconds: seconds(self.timeout_seconds.start())..=seconds(self.timeout_seconds.end()),
            backoff: self.backoff.hastened(times),
            ..self
        }
    }
}
