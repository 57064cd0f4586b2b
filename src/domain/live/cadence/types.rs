//! What the cadence is told, and what it says.
//!
//! The task of an environment in `agent` makes the former and carries out the latter. Nothing is decided
//! here.

use std::time::{Duration, Instant};

use crate::domain::live::departed_pods::Carried;
use crate::domain::live::departure::Revision;
use crate::domain::retry::Class;

/// What is known of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The last revision that changed the environment's part of the live set.
    pub revision: Revision,
    /// Whether that part can be vouched for.
    pub knowledge: Knowledge,
    /// Whether there are pods to witness, those that a report in flight carries included.
    pub witnessed: bool,
}

/// Whether what is known of an environment can be vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// The first list is not complete.
    Unlisted,
    /// The list is complete, but that there is no more in it would be a guess.
    Unconfirmed,
    /// It could at this time: the last contact of the stalest watch.
    Contact(Instant),
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing is due before `until`; without it, not before something happens.
    Wait {
        /// A time that has not come.
        until: Option<Instant>,
    },
    /// Compose the report of what is now, and `begin` it.
    Send {
        /// What it is sent for.
        why: Why,
    },
    /// No report may begin, not even a heartbeat. One in flight goes on.
    Withhold {
        /// What is missing. No time mends it.
        why: Withheld,
    },
    /// The last report was accepted, or no further attempt may succeed: leave, whatever is in flight.
    Stop,
}

/// What a report is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There was none before.
    First,
    /// Something changed.
    Change,
    /// Nothing changed for an interval.
    Heartbeat,
    /// The one before failed.
    Retry,
    /// The one before was too large with the pods to witness: what runs is told at least.
    Smaller,
    /// The one before carried pods that run no longer, and would let them look alive.
    FollowUp,
    /// The agent ends.
    LastWord,
}

/// Why no report may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// The first list is not complete.
    Unlisted,
    /// Emptiness would be a guess.
    Unconfirmed,
    /// The last contact is too long ago.
    Stale {
        /// When it was.
        contact: Instant,
    },
}

/// A report that was composed and counted, but not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draft {
    /// What it was asked for.
    pub why: Why,
    /// The environment's revision when it was composed.
    pub revision: Revision,
    /// A hash of its bytes.
    pub hash: u64,
    /// Whether it holds more than what runs.
    pub carried: Carried,
}

/// What to do with a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// Upload it; it is in flight.
    Upload,
    /// The service holds these bytes: a change was undone, and there is nothing to say. The witness may
    /// be told of them as of a report that was accepted.
    Repetition,
    /// Another is in flight.
    Busy,
}

/// What came of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The service has it.
    Accepted {
        /// Whether it made a new snapshot of it, where it said so.
        new_snapshot: Option<bool>,
    },
    /// It may not have it.
    Failed {
        /// Whether the same may go better soon.
        failure: Failure,
        /// How long the answer asks to wait.
        retry_after: Option<Duration>,
    },
}

/// Whether what failed may go better soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It may: no answer, or one that promises as much.
    Passing,
    /// It does not mend itself, nor does a change of the set mend it: somebody has to do something.
    Lasting,
    /// The same, and what was sent was too large. Without the pods to witness it may not be.
    TooLarge,
}

/// What an answer showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answered {
    /// The report that was accepted: the environment's revision that it was of, and what it held. The
    /// witness goes by the revision of the whole set.
    pub accepted: Option<(Revision, Carried)>,
    /// The service made a new snapshot of the bytes that it had from us: someone else reports to the
    /// same environment.
    pub another_writer: bool,
}

/// Reports that failed in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failing {
    /// When the first of them failed.
    pub(crate) since: Instant,
    /// How many there were.
    pub(crate) failures: u32,
    /// What it is sent for.
    pub(crate) why: Why,
    /// When the next try is due.
    pub(crate) again_at: Option<Instant>,
}

impl Why {
    /// Whether the report holds the pods to witness beside those that run. A follow-up does not, even
    /// where new ones have come up: they go with the report after it, so that no chain of them keeps
    /// any looking alive.
    #[must_use]
    pub fn takes_witnessed(self) -> bool {
        !matches!(self, Self::FollowUp | Self::Smaller)
    }
}

impl From<Class> for Failure {
    /// An answer of the class `Success` that is not one after all comes from something else than the
    /// service, and that lasts.
    fn from(class: Class) -> Self {
        match class {
            Class::Transient => Self::Passing,
            Class::Success | Class::NotAuthorized | Class::NotFound | Class::Refused | Class::Foreign => {
                Self::Lasting
            }
        }
    }
}
