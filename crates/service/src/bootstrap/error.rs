//! Why a bootstrap file is not applied.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use model::escape::Escaped;
use runtime::files::quoted;

/// Timeout for reading the file and its secrets.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("failed to read the bootstrap file {}", quoted(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    /// Reading the file, or a file that it refers to, takes too long: for example a pipe.
    #[error("failed to read the bootstrap file {} or a file that it refers to: timed out after {READ_TIMEOUT:?}", quoted(.0))]
    TooSlow(PathBuf),
    #[error("the bootstrap file {} is empty", quoted(.0))]
    Empty(PathBuf),
    /// A syntax error, or a key with an unexpected type. The cause has the line.
    #[error("invalid bootstrap file {} at {}", quoted(.0), Escaped(.1))]
    Invalid(PathBuf, String, #[source] Box<serde_saphyr::Error>),
    #[error("invalid bootstrap file {}: {key}: {why}", quoted(path))]
    Value { path: PathBuf, key: String, why: String },
    /// The database has this generation with different content.
    #[error(
        "the bootstrap file {} changed without a new generation ({generation}): increment `generation`",
        quoted(path)
    )]
    Changed { path: PathBuf, generation: i64 },
    #[error(
        "the bootstrap file {} has generation {generation}, but the database has generation {seen}: raise its generation above {seen}, or use the newest file",
        quoted(path)
    )]
    Outdated {
        path: PathBuf,
        generation: i64,
        /// The generation in the database.
        seen: i64,
    },
    /// A number of a removed object is reused.
    #[error("invalid bootstrap file {}: {conflict}", quoted(path))]
    NumberConflict {
        path: PathBuf,
        /// Which number, and what to do.
        conflict: String,
    },
    #[error("failed to apply the bootstrap file")]
    Store(#[from] store::Error),
}

impl BootstrapError {
    /// The generation of the database, if it is higher than the file's.
    pub(crate) fn newer_generation(&self) -> Option<i64> {
        match self {
            Self::Outdated { seen, .. } => Some(*seen),
            _ => None,
        }
    }
}
