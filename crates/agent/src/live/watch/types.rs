//! Inputs and outputs of the watch state machine, and the labels of its metrics.

use std::time::Duration;

use model::retry::{StatusClass, classify};
use model::words;

/// Result of the last [`WatchAction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// The response has status 200; its body has not been read.
    ResponseStarted,
    /// The response has another status.
    ErrorStatus {
        status: u16,
        /// Delay from the Retry-After header.
        retry_after: Option<Duration>,
    },
    /// The request failed without a response.
    Unreachable,
    /// The read timed out.
    Silent,
    /// The connection was lost in the middle of the response.
    BrokenOff,
    /// The response is not a list or a watch of pods.
    Garbled,
    /// A page, or an unpaged list, was read completely.
    Page {
        /// The continue token; empty on the last page.
        token: &'a str,
        resource_version: &'a str,
    },
    /// An event of a watch or of a streaming list.
    Event(StreamEvent<'a>),
    Ended,
    DelayElapsed,
}

/// An event. `resource_version` is empty if the event has no readable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent<'a> {
    Added {
        resource_version: &'a str,
    },
    Modified {
        resource_version: &'a str,
    },
    Deleted {
        resource_version: &'a str,
    },
    /// BOOKMARK; the first of a streaming list has the annotation `k8s.io/initial-events-end`.
    Bookmark {
        resource_version: &'a str,
        initial_events_end: bool,
    },
    /// ERROR, with the code, the reason and the `retryAfterSeconds` of its `Status`.
    Error {
        code: u16,
        reason: &'a str,
        retry_after: Option<Duration>,
    },
}

/// Output of the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Progress of the list, to apply to the live set before the action.
    pub listing: Option<Listing>,
    /// Why the previous request or response was abandoned.
    pub restart: Option<RestartReason>,
    pub action: WatchAction,
}

/// Progress of a list. The live set marks and sweeps in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// A list starts: clear all marks.
    Started,
    /// The list is complete: pods without a mark are gone.
    Completed,
}

/// The next action. Only `Read` continues with the open response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchAction {
    Send(WatchRequest),
    /// Read the next event of the response, or a complete page.
    Read {
        /// Maximum time without data: before the next event, or within a page.
        timeout: Duration,
    },
    Wait(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchRequest {
    /// A consistent list as events, followed by a watch.
    StreamingList {
        /// Seconds until the server ends the stream.
        timeout_seconds: u32,
    },
    /// A page of a consistent list.
    Page {
        /// The continue token; `None` for the first page.
        token: Option<String>,
    },
    /// A consistent list in one response.
    Unpaged,
    /// Events after a resourceVersion.
    Watch {
        from: String,
        /// Seconds until the server ends the watch.
        timeout_seconds: u32,
    },
}

words! {
    /// Why a request or a response was abandoned; a metric label.
    RestartReason {
        /// 410: the resourceVersion or the continue token is too old.
        Expired "expired",
        /// Another error status, or an ERROR event.
        Refused "refused",
        /// The request failed without a response.
        Unreachable "unreachable",
        /// The read timed out.
        Silent "silent",
        /// The connection was lost in the middle of the response.
        BrokenOff "broken_off",
        /// The response is not a list or a watch of pods.
        Garbled "garbled",
        /// The server closed the stream, as it regularly does.
        Ended "ended",
        /// The periodic relist is due.
        Relist "relist",
    }
}

words! {
    /// Current activity of a watch; a metric label.
    State {
        Listing "listing",
        Watching "watching",
        Waiting "waiting",
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WatchFailure {
    pub(super) reason: RestartReason,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
}

impl<'a> StreamEvent<'a> {
    pub(super) fn resource_version(self) -> &'a str {
        match self {
            Self::Added { resource_version }
            | Self::Modified { resource_version }
            | Self::Deleted { resource_version }
            | Self::Bookmark { resource_version, .. } => resource_version,
            Self::Error { .. } => "",
        }
    }
}

impl Input<'_> {
    /// The failure that this input stands for; `None` if it is progress.
    pub(super) fn failure(self) -> Option<WatchFailure> {
        Some(match self {
            Self::Event(StreamEvent::Error { code, reason, retry_after }) => {
                let is_expired = code == 410 || matches!(reason, "Expired" | "Gone");
                WatchFailure::from_status(if is_expired { 410 } else { code }, retry_after)
            }
            Self::ResponseStarted | Self::Page { .. } | Self::Event(_) | Self::DelayElapsed => return None,
            Self::ErrorStatus { status, retry_after } => WatchFailure::from_status(status, retry_after),
            Self::Unreachable => WatchFailure::new(RestartReason::Unreachable),
            Self::Silent => WatchFailure::new(RestartReason::Silent),
            Self::BrokenOff => WatchFailure::new(RestartReason::BrokenOff),
            Self::Garbled => WatchFailure::new(RestartReason::Garbled),
            Self::Ended => WatchFailure::new(RestartReason::Ended),
        })
    }
}

impl WatchFailure {
    pub(super) fn new(reason: RestartReason) -> Self {
        Self { reason, status: None, retry_after: None }
    }

    fn from_status(status: u16, retry_after: Option<Duration>) -> Self {
        let reason = if status == 410 { RestartReason::Expired } else { RestartReason::Refused };
        Self { reason, status: Some(status), retry_after }
    }

    /// Whether the server rejected the request itself, so that the same request would fail again.
    pub(super) fn is_rejection(self) -> bool {
        self.status.is_some_and(|status| classify(status) == StatusClass::Rejected)
    }

    /// Whether an invalid resourceVersion may be the cause. An unreachable server, missing permissions and
    /// rate limiting have other causes.
    pub(super) fn may_be_caused_by_version(self) -> bool {
        self.reason != RestartReason::Unreachable && !matches!(self.status, Some(401 | 403 | 429))
    }
}
