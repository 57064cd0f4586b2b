//! Durations and options of the watch state machine.

use std::ops::RangeInclusive;
use std::time::Duration;

use model::retry::Backoff;

#[derive(Debug, Clone)]
pub struct WatchTiming {
    pub streaming: Streaming,
    pub after_list: AfterList,
    /// Timeout of a streaming list, up to the bookmark that ends it.
    pub stream_timeout: Duration,
    /// Extension of this timeout by each added object. A large list arrives faster than that, changes arrive more slowly.
    pub stream_extension: Duration,
    /// Read timeout of a page.
    pub page_timeout: Duration,
    /// Read timeout of a watch. The API server sends a bookmark about once a minute.
    pub watch_timeout: Duration,
    /// Relist instead of resuming the watch after this time without contact.
    pub stale_after: Duration,
    /// Interval of periodic relists; each is randomized by up to a quarter.
    pub relist: Duration,
    /// Range of the random `timeoutSeconds` of a watch, in seconds.
    pub timeout_seconds: RangeInclusive<u32>,
    pub backoff: Backoff,
}

/// Whether to request streaming lists (Kubernetes documentation, "Kubernetes API Concepts", Streaming
/// lists).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// Request a streaming list first.
    Preferred,
    /// Request paged lists only.
    Never,
}

/// What follows a complete list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterList {
    /// A watch from its resourceVersion.
    Watch,
    /// Nothing, so a list in one response needs no resourceVersion.
    End,
}

impl Default for WatchTiming {
    fn default() -> Self {
        Self::scaled(1)
    }
}

impl WatchTiming {
    /// The default with every duration divided by `divisor`; `timeout_seconds` stays at least 1.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let seconds = |seconds| Duration::from_secs(seconds) / divisor;
        Self {
            streaming: Streaming::Preferred,
            after_list: AfterList::Watch,
            stream_timeout: seconds(30),
            stream_extension: Duration::from_millis(10) / divisor,
            page_timeout: seconds(60),
            watch_timeout: seconds(100),
            stale_after: seconds(4 * 60),
            relist: seconds(6 * 60 * 60),
            timeout_seconds: (240 / divisor).max(1)..=(300 / divisor).max(1),
            backoff: Backoff::scaled(divisor),
        }
    }
}
