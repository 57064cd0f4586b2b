//! The errors of the demo.

use std::any::Any;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::exit::Failure;
use crate::cli::files::quoted;

#[derive(Debug, thiserror::Error)]
pub(super) enum DemoError {
    #[error("failed to write {}", quoted(.0))]
    Write(PathBuf, #[source] io::Error),
    #[error("the demo's data has no {0}")]
    Missing(String),
    #[error("{0} within {1:?}")]
    TimedOut(&'static str, Duration),
}

pub(super) enum Ended {
    /// The reader of standard output closed the pipe, as `head` does.
    ClosedPipe,
    Failed(Vec<Failure>),
}

pub(super) type Result<T> = std::result::Result<T, Ended>;

impl<E: Error + 'static> From<E> for Ended {
    fn from(error: E) -> Self {
        let io = (&error as &dyn Any).downcast_ref::<io::Error>();
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::BrokenPipe) => Self::ClosedPipe,
            _ => Failure::unexpected(error).into(),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(vec![failure])
    }
}
