//! Files that options name.

use std::io;
use std::path::{Path, PathBuf};

use model::escape::Escaped;
use runtime::files::read_up_to;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("failed to read {}", quoted(.0))]
    Read(PathBuf, #[source] io::Error),
    #[error("failed to read {} ({})", quoted(.0), .1)]
    ReadOption(PathBuf, &'static str, #[source] io::Error),
    #[error("failed to write {}", quoted(.0))]
    Write(PathBuf, #[source] io::Error),
}

/// Reads a file of at most this many bytes.
pub(crate) fn read(max_bytes: u64, path: &Path) -> Result<Vec<u8>, FileError> {
    read_up_to(max_bytes, path).map_err(|error| FileError::Read(path.to_owned(), error))
}

/// Reads a file of at most this many bytes. An error names the option, where the path alone does not tell it.
pub(crate) fn read_option(max_bytes: u64, path: &Path, option: &'static str) -> Result<Vec<u8>, FileError> {
    read_up_to(max_bytes, path).map_err(|error| FileError::ReadOption(path.to_owned(), option, error))
}

pub(crate) fn quoted(path: &Path) -> String {
    format!("\"{}\"", Escaped(&path.display().to_string()))
}
