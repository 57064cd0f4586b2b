//! Inputs and outputs of the cadence.
//!
//! The task of an environment in `agent` builds the inputs and carries out the outputs.

use std::time::{Duration, Instant};

use crate::live::departed_pods::Contents;
use crate::live::departure::Revision;
use model::retry::StatusClass;

/// The current state of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The last revision that changed the environment's part of the live set.
    pub revision: Revision,
    /// Whether that part is known completely.
    pub knowledge: Knowledge,
    /// Whether there are unreported departed pods, including those of a report in flight.
    pub has_departed_pods: bool,
}

/// Whether the environment's part of the live set is known completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// The first list is not complete.
    Unlisted,
    /// The list is complete, but an empty namespace is not confirmed to exist.
    Unconfirmed,
    /// The live set matched the server at this time: the last contact of the stalest watch.
    Contact(Instant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Wait for a change, and at most until `until`.
    Wait {
        /// Always in the future.
        until: Option<Instant>,
    },
    /// Compose a report of the current state and pass it to `begin`.
    Send { reason: SendReason },
    /// No report may begin, including heartbeats. A report in flight continues.
    Withhold {
        /// The missing knowledge. Waiting alone does not change it.
        reason: WithholdReason,
    },
    /// The shutdown is complete, or no further attempt can succeed: exit, even if a report is in flight.
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendReason {
    First,
    Change,
    /// No change for an interval.
    Heartbeat,
    Retry,
    /// The previous report was too large with departed pods; running pods are reported without them.
    Smaller,
    /// The previous report contained departed pods; without a follow-up they would appear to be running.
    FollowUp,
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithholdReason {
    Unlisted,
    /// An empty namespace is not confirmed to exist.
    Unconfirmed,
    /// The last contact is too old.
    Stale {
        contact: Instant,
    },
}

/// A report that is composed but not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draft {
    /// The reason from [`Step::Send`].
    pub reason: SendReason,
    /// The environment's revision at the time of composition.
    pub revision: Revision,
    pub hash: u64,
    /// Whether the report contains departed pods.
    pub contents: Contents,
}

/// The decision on a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginResult {
    /// Upload it; it is in flight now.
    Upload,
    /// The service already stores this body: a change was undone. Treat it as an accepted report.
    Unchanged,
    /// Another report is in flight.
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadResult {
    Accepted {
        /// Whether the service created a new snapshot; `None` if the response does not say.
        new_snapshot: Option<bool>,
    },
    /// The service may or may not have stored the report.
    Failed {
        failure: UploadFailure,
        /// Delay from the Retry-After header.
        retry_after: Option<Duration>,
    },
}

/// Whether a retry of a failed report may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadFailure {
    /// A retry may succeed soon: no response, or a transient status.
    Transient,
    /// Somebody has to intervene; a retry or a change of the pods does not help.
    Permanent,
    /// Permanent, because the body is too large. A report without departed pods may fit.
    TooLarge,
}

/// Consequences of a finished upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// The environment's revision and the contents of an accepted report. Departed pods are compared with
    /// the revision of the whole set instead.
    pub accepted: Option<(Revision, Contents)>,
    /// The service created a new snapshot for an unchanged body: another agent reports to the same
    /// environment.
    pub another_writer: bool,
}

/// Consecutive failed reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failing {
    /// Time of the first failure.
    pub(super) since: Instant,
    pub(super) failures: u32,
    /// Reason of the next attempt.
    pub(super) reason: SendReason,
    pub(super) retry_at: Option<Instant>,
}

impl SendReason {
    /// Whether the report includes departed pods. A follow-up does not: pods that departed meanwhile wait
    /// for the next report, so that a chain of follow-ups never makes a pod appear to be running.
    #[must_use]
    pub fn includes_departed_pods(self) -> bool {
        !matches!(self, Self::FollowUp | Self::Smaller)
    }
}

impl From<StatusClass> for UploadFailure {
    /// `Success` means here that a successful status has an invalid body: it is not from the service, which
    /// is permanent.
    fn from(class: StatusClass) -> Self {
        match class {
            StatusClass::Transient => Self::Transient,
            StatusClass::Success
            | StatusClass::NotAuthorized
            | StatusClass::NotFound
            | StatusClass::Rejected
            | StatusClass::Foreign => Self::Permanent,
        }
    }
}
