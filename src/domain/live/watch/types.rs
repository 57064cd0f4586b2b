//! What a watch is told, and what it says: its inputs, its acts and the facts for logs and metrics.

use std::time::Duration;

use crate::domain::retry::{Class, class};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// The request was answered with 200; nothing of the body was read yet.
    Answered,
    /// It was answered with another status.
    Refused {
        /// The status code.
        status: u16,
        /// What the Retry-After header asks for.
        retry_after: Option<Duration>,
    },
    /// It was not answered, and there may be nobody who could.
    Unreachable,
    /// Nothing came in the time that was given.
    Silent,
    /// The answer broke off before its end.
    BrokenOff,
    /// What came is not what was asked for.
    Garbled,
    /// A page, or a list in one, was read to its end.
    Page {
        /// Its continue token; empty at the end of the list.
        token: &'a str,
        /// Its resourceVersion.
        resource_version: &'a str,
    },
    /// An event of a watch or of a streaming list.
    Event(Event<'a>),
    /// The stream came to its end.
    Ended,
    /// The pause is over.
    Waited,
}

/// An event. Its resourceVersion is empty where there was none, or none that could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are said above, and in the Kubernetes documentation")]
pub enum Event<'a> {
    /// ADDED.
    Added { resource_version: &'a str },
    /// MODIFIED.
    Modified { resource_version: &'a str },
    /// DELETED.
    Deleted { resource_version: &'a str },
    /// BOOKMARK; the first of a streaming list has the annotation `k8s.io/initial-events-end`.
    Bookmark { resource_version: &'a str, initial_events_end: bool },
    /// ERROR, with the code, the reason and the `retryAfterSeconds` of its `Status`.
    Error { code: u16, reason: &'a str, retry_after: Option<Duration> },
}

/// What to do, and what to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What the live set has to know, before the act.
    pub listing: Option<Listing>,
    /// Why what was open, or asked, is not gone on with.
    pub restart: Option<Restart>,
    /// What to do next.
    pub act: Act,
}

/// What becomes of the live set: a relist is mark and sweep in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// A list begins: no pod was seen in it yet.
    Begin,
    /// It is complete: what was not seen in it, is gone.
    Complete,
}

/// What to do next. Only `Read` goes on with the answer that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Send this request.
    Ask(Request),
    /// Read the next event of the answer, or a page to its end.
    Read {
        /// The longest silence: before the next event, or amid a page.
        within: Duration,
    },
    /// Nothing, for so long.
    Wait(Duration),
}

/// A request for pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A consistent list as events, which goes on as a watch.
    StreamingList {
        /// When it shall end.
        timeout_seconds: u32,
    },
    /// A page of a consistent list: the first, or the one behind a token.
    Page {
        /// The continue token.
        token: Option<String>,
    },
    /// A consistent list in one answer.
    Whole,
    /// What happens after a resourceVersion.
    Watch {
        /// The resourceVersion.
        from: String,
        /// When it shall end.
        timeout_seconds: u32,
    },
}

/// Why a request or an answer is not gone on with: the labels of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Restart {
    /// 410: the resourceVersion or the continue token is too old.
    Expired,
    /// Another status, or an ERROR event.
    Refused,
    /// There was no answer.
    Unreachable,
    /// Nothing came for too long.
    Silent,
    /// The answer broke off.
    BrokenOff,
    /// What came is not what was asked for.
    Garbled,
    /// The stream came to its end, as all do.
    Ended,
    /// It is time for another list.
    Relist,
}

/// What a watch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It reads a list.
    Listing,
    /// It follows a watch.
    Watching,
    /// It waits before the next try.
    Waiting,
}

/// A request or an answer that came to nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) why: Restart,
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
}

impl Restart {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Expired,
        Self::Refused,
        Self::Unreachable,
        Self::Silent,
        Self::BrokenOff,
        Self::Garbled,
        Self::Ended,
        Self::Relist,
    ];

    /// Its label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::BrokenOff => "broken_off",
            Self::Garbled => "garbled",
            Self::Ended => "ended",
            Self::Relist => "relist",
        }
    }
}

impl State {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Listing, Self::Watching, Self::Waiting];

    /// Its label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::Waiting => "waiting",
        }
    }
}

impl<'a> Event<'a> {
    pub(crate) fn resource_version(self) -> &'a str {
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
    /// What failed, where anything did.
    pub(crate) fn failure(self) -> Option<Failure> {
        Some(match self {
            Self::Event(Event::Error { code, reason, retry_after }) => {
                let is_expired = code == 410 || matches!(reason, "Expired" | "Gone");
                Failure::answered(if is_expired { 410 } else { code }, retry_after)
            }
            Self::Answered | Self::Page { .. } | Self::Event(_) | Self::Waited => return None,
            Self::Refused { status, retry_after } => Failure::answered(status, retry_after),
            Self::Unreachable => Failure::of(Restart::Unreachable),
            Self::Silent => Failure::of(Restart::Silent),
            Self::BrokenOff => Failure::of(Restart::BrokenOff),
            Self::Garbled => Failure::of(Restart::Garbled),
            Self::Ended => Failure::of(Restart::Ended),
        })
    }
}

impl Failure {
    pub(crate) fn of(why: Restart) -> Self {
        Self { why, status: None, retry_after: None }
    }

    fn answered(status: u16, retry_after: Option<Duration>) -> Self {
        let why = if status == 410 { Restart::Expired } else { Restart::Refused };
        Self { why, status: Some(status), retry_after }
    }

    /// Whether what was sent is at fault, so that the same would fail again.
    pub(crate) fn is_refusal(self) -> bool {
        self.status.is_some_and(|status| class(status) == Class::Refused)
    }

    /// Whether the resourceVersion of a watch may be at fault. That nobody is there, that the caller may
    /// not watch and that too many do has nothing to do with it.
    pub(crate) fn may_be_of_the_version(self) -> bool {
        self.why != Restart::Unreachable && !matches!(self.status, Some(401 | 403 | 429))
    }
}
