//! Files that options name.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

pub(crate) use runtime::files::quoted;
use runtime::files::{Existing, Readers, WholeFile, read_up_to};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("failed to read {}", quoted(.0))]
    Read(PathBuf, #[source] io::Error),
    #[error("failed to read {} ({})", quoted(.0), .1)]
    ReadOption(PathBuf, &'static str, #[source] io::Error),
    #[error("failed to write {}", quoted(.0))]
    Write(PathBuf, #[source] io::Error),
    #[error("the file {} exists: remove it, or name another one", quoted(.0))]
    Exists(PathBuf),
}

/// Reads a file of at most this many bytes.
pub(crate) fn read(max_bytes: u64, path: &Path) -> Result<Vec<u8>, FileError> {
    read_up_to(max_bytes, path).map_err(|error| FileError::Read(path.to_owned(), error))
}

/// Reads a file of at most this many bytes. An error names the option, where the path alone does not tell it.
pub(crate) fn read_option(max_bytes: u64, path: &Path, option: &'static str) -> Result<Vec<u8>, FileError> {
    read_up_to(max_bytes, path).map_err(|error| FileError::ReadOption(path.to_owned(), option, error))
}

/// A file that an option names. It is written whole or not at all, and an existing one is kept. A device or a pipe, such as
/// `/dev/stdout`, is written as it is.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    to: BufWriter<Destination>,
}

#[derive(Debug)]
enum Destination {
    File(WholeFile),
    Stream(File),
}

impl OutputFile {
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        let is_stream = |found: &Metadata| !found.is_file() && !found.is_dir();
        let opened = match fs::metadata(path) {
            Ok(found) if is_stream(&found) => File::options().write(true).open(path).map(Destination::Stream),
            _ if path.symlink_metadata().is_ok() => return Err(FileError::Exists(path.to_owned())),
            _ => WholeFile::create(path, Readers::Umask).map(Destination::File),
        };
        let to = opened.map_err(|error| FileError::Write(path.to_owned(), error))?;
        Ok(Self { path: path.to_owned(), to: BufWriter::new(to) })
    }

    pub(crate) fn write(&mut self, content: &[u8]) -> Result<(), FileError> {
        self.to.write_all(content).map_err(|error| FileError::Write(self.path.clone(), error))
    }

    pub(crate) fn finish(self) -> Result<(), FileError> {
        let written = self.to.into_inner().map_err(IntoInnerError::into_error);
        let persisted = written.and_then(|to| match to {
            Destination::File(file) => file.persist(Existing::Keep),
            Destination::Stream(_) => Ok(()),
        });
        persisted.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists(self.path),
            _ => FileError::Write(self.path, error),
        })
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stream(file) => file.flush(),
        }
    }
}
