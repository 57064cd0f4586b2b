//! Faults of the API server.

use std::time::Duration;

use crate::daemon::support::cluster::request::ApiRequest;

/// A fault of one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 429 in plain text, as from an overloaded server, with Retry-After in seconds.
    Overloaded(Option<u32>),
    /// The same, with Retry-After as a date (RFC 9110, section 10.2.3).
    OverloadedUntil(String),
    /// 500 in plain text.
    Broken,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 422, as from a server without streaming lists. Other requests succeed.
    NoStreamingLists,
    /// 400, as from an older server.
    BadRequest,
    /// 410: to a watch as an ERROR event, to a page as a status.
    Expired,
    /// No response.
    Stall,
    /// Closes the connection without a response.
    Reset,
    /// Cuts the connection after this many bytes of the body.
    CutAfter(usize),
    /// Stalls after this many bytes of the body.
    StallAfter(usize),
    /// Ends the body cleanly after this many bytes.
    EndAfter(usize),
    /// An undecodable body, or undecodable frames of a watch.
    Garbage,
    /// A streaming list that never ends, as from a server that ignores `sendInitialEvents`.
    IgnoredInitialEvents,
    /// A watch with status 200 that never sends a frame.
    Silent,
    /// A watch that sends bookmarks, but no events.
    BookmarksOnly,
    /// A watch that ends cleanly after this many frames.
    CloseAfterFrames(usize),
    /// A watch that ends cleanly after this time.
    CloseAfter(Duration),
    /// A watch that ends cleanly within the frame after this many.
    HalfAFrameAfter(usize),
}

/// Selects the fault of a request.
pub type Rule = crate::daemon::support::rules::Rule<ApiRequest, Fault>;
