//! How a cluster misbehaves.

use std::time::Duration;

use super::ask::Ask;

/// What goes wrong with one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 429 in plain text, as from an overloaded server, with so many seconds of Retry-After.
    Overloaded(Option<u32>),
    /// The same, with a date (RFC 9110, section 10.2.3) in Retry-After.
    OverloadedUntil(String),
    /// 500 in plain text.
    Broken,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 422, as from a server that has no streaming lists; other requests are answered well.
    NoStreamingLists,
    /// 400, as from one that knows less.
    BadRequest,
    /// 410: to a watch as an ERROR event, to a page as a status.
    Expired,
    /// No answer at all.
    Stall,
    /// The connection is closed instead of an answer.
    Reset,
    /// The connection is cut after so many bytes of the body.
    CutAfter(usize),
    /// Nothing follows after so many bytes of the body, for ever.
    StallAfter(usize),
    /// The body ends in order after so many bytes.
    EndAfter(usize),
    /// A body that is no protobuf; to a watch, frames that are none.
    Garbage,
    /// A watch that says 200 and nothing more, for ever.
    Silent,
    /// A watch that sends no events; its bookmarks say that there were none.
    BookmarksOnly,
    /// A watch that ends in order after so many frames.
    CloseAfterFrames(usize),
    /// A watch that ends in order after so long.
    CloseAfter(Duration),
    /// A watch that ends in order in the middle of the frame that follows after so many.
    HalfAFrameAfter(usize),
}

/// Which fault a request meets, if any.
pub type Rule = crate::daemon::rules::Rule<Ask, Fault>;
