//! Maps each failure to a message, a hint and an exit code.

use std::error::Error;
use std::process::ExitCode;

use agent::cluster::ConnectError;
use agent::daemon;
use agent::gather::GatherError;
use agent::once;
use client::{Client, Resource, RetryError};
use model::retry::StatusClass;
use runtime::error_causes;

/// Exit codes, a stable part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Unexpected = 1,
    Usage = 2,
    NotAuthorized = 3,
    NotFound = 4,
    Rejected = 5,
    Unreachable = 6,
    TimedOut = 7,
    Cluster = 8,
    Failing = 9,
    NonCompliant = 10,
    Mismatch = 11,
}

/// A failure as it is shown to the user.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + 'static>,
    hint: Option<String>,
    exit: Exit,
}

#[derive(Debug, thiserror::Error)]
#[error("not compliant: {0}")]
struct NotCompliant(String);

impl Failure {
    pub(crate) fn usage(error: impl Error + 'static) -> Self {
        Self { error: Box::new(error), hint: None, exit: Exit::Usage }
    }

    /// The cluster is unreachable or denies access.
    pub(crate) fn cluster(error: agent::cluster::Error) -> Self {
        let hint = error.hint();
        Self::new(error, hint, Exit::Cluster)
    }

    pub(crate) fn unexpected(error: impl Error + 'static) -> Self {
        Self::new(error, None, Exit::Unexpected)
    }

    /// The requirements for a subject are not met. Standard output has the reasons.
    pub(crate) fn not_compliant(subject: String) -> Self {
        Self::new(NotCompliant(subject), None, Exit::NonCompliant)
    }

    pub(crate) fn new(error: impl Error + 'static, hint: Option<String>, exit: Exit) -> Self {
        Self { error: Box::new(error), hint, exit }
    }

    /// A failed request about a resource, with a hint.
    pub(crate) fn request(
        client: &Client,
        about: Resource<'_>,
        error: impl Into<RetryError<client::Error>>,
    ) -> Self {
        let error = error.into();
        let hint = error.last().and_then(|error| client.hint(error, about));
        Self::from(error).with_hint(hint)
    }

    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Exit code of the process.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Messages of the error and its causes, outermost first, without repetitions.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        error_causes::causes(&*self.error)
    }

    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A command that has a single failure.
impl From<Failure> for Vec<Failure> {
    fn from(failure: Failure) -> Self {
        vec![failure]
    }
}

impl From<once::Error> for Failure {
    fn from(error: once::Error) -> Self {
        Self { exit: exit_of(&error), hint: error.hint(), error: Box::new(error) }
    }
}

impl From<daemon::Error> for Failure {
    fn from(error: daemon::Error) -> Self {
        let (exit, hint) = match error {
            daemon::Error::Scope(_) => (Exit::Usage, Some(GatherError::WHOLE_CLUSTER.to_owned())),
            daemon::Error::Address(_) | daemon::Error::Ended(_) => (Exit::Unexpected, None),
        };
        Self { error: Box::new(error), hint, exit }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        RetryError::from(error).into()
    }
}

impl From<RetryError<client::Error>> for Failure {
    fn from(error: RetryError<client::Error>) -> Self {
        let exit = error.last().map_or(Exit::Unreachable, exit_of_api);
        Self::new(error, None, exit)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let exit = match error {
            ConnectError::Credentials(_) | ConnectError::TimedOut(_) => Exit::Cluster,
            _ => Exit::Usage,
        };
        Self { error: Box::new(error), hint: None, exit }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

fn exit_of(error: &once::Error) -> Exit {
    match error {
        once::Error::Gather(GatherError::Scope(_) | GatherError::File(_) | GatherError::FileTimedOut(..)) => {
            Exit::Usage
        }
        once::Error::Gather(GatherError::List(_)) | once::Error::Withheld { .. } => Exit::Cluster,
        once::Error::NotReported { source, .. } => source.last().map_or(Exit::Unreachable, exit_of_api),
        once::Error::Output(_) => Exit::Unexpected,
    }
}

fn exit_of_api(error: &client::Error) -> Exit {
    match error.class() {
        _ if matches!(error, client::Error::Token(token) if !token.is_transient()) => Exit::Usage,
        Some(StatusClass::NotAuthorized) => Exit::NotAuthorized,
        Some(StatusClass::NotFound) => Exit::NotFound,
        Some(StatusClass::Rejected) => Exit::Rejected,
        None | Some(StatusClass::Transient | StatusClass::Success | StatusClass::Foreign) => {
            Exit::Unreachable
        }
    }
}
