//! Finds and reads the files of test results, and builds the attachment.
//!
//! Each file is read once, so that the attached bytes are the counted ones. Only the patterns of `glob` are used: its walk
//! follows links and skips names that are not UTF-8.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use walkdir::WalkDir;

use crate::cli::files::{FileError, quoted};
use client::Attachment;
use junit::{self, CountMismatch, JunitError, Problem};
use model::{JunitResult, Text};
use runtime::files::read_up_to;

/// Maximum size of a file of results, in bytes.
const MAX_RESULTS: u64 = 64 * 1024 * 1024;

/// Maximum size of an attachment, in bytes (interface, Limits).
const MAX_ATTACHMENT: usize = 10_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attach<'a> {
    Results,
    File(&'a Path),
    Nothing,
}

#[derive(Debug)]
pub(super) struct TestResults {
    pub(super) results: Vec<JunitResult>,
    /// Suites whose totals contradict their test cases, with their file.
    pub(super) mismatches: Vec<(PathBuf, CountMismatch)>,
    pub(super) files: usize,
    pub(super) attachment: Option<Attachment>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ResultsError {
    #[error("no file matches {}: expected a JUnit XML file, a directory with such files, or a pattern such as 'build/**/TEST-*.xml'", quoted(.0))]
    NoFile(PathBuf),
    #[error("no JUnit XML file (*.xml) in directory {}", quoted(.0))]
    NoResults(PathBuf),
    #[error("invalid pattern {}", quoted(.0))]
    Pattern(PathBuf, #[source] glob::PatternError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is too large: must be at most {MAX_RESULTS} bytes, got at least {}", quoted(.0), .1)]
    TooLarge(PathBuf, u64),
    #[error("failed to parse {} as JUnit XML", quoted(.0))]
    NotJunit(PathBuf, #[source] JunitError),
    #[error("the attachment is too large: must be at most {MAX_ATTACHMENT} bytes")]
    AttachmentTooLarge,
    #[error("failed to read the attachment {}", quoted(.0))]
    ReadAttachment(PathBuf, #[source] io::Error),
    #[error("failed to compress the results")]
    Compress(#[source] io::Error),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct InputFile {
    path: PathBuf,
    /// Found in a directory, which may also contain other kinds of files.
    is_from_directory: bool,
}

/// Reads the files, directories and patterns of the command line.
pub(super) fn read(arguments: &[PathBuf], attach: Attach<'_>) -> Result<TestResults, ResultsError> {
    let mut found = TestResults { results: Vec::new(), mismatches: Vec::new(), files: 0, attachment: None };
    let mut bundle = Bundle::default();
    for InputFile { path, is_from_directory } in input_files(arguments)? {
        let bytes = read_results(&path)?;
        let read = match junit::read(&bytes) {
            Err(JunitError { problem: problem @ Problem::Root(_), .. }) if is_from_directory => {
                tracing::info!("skipped {}: {problem}", quoted(&path));
                continue;
            }
            read => read.map_err(|error| ResultsError::NotJunit(path.clone(), error))?,
        };
        found.files += 1;
        read.results.into_iter().for_each(|result| junit::add(&mut found.results, with_name(result, &path)));
        found.mismatches.extend(read.mismatches.into_iter().map(|mismatch| (path.clone(), mismatch)));
        if attach == Attach::Results {
            bundle.add(path, bytes)?;
        }
    }
    if found.files == 0 {
        return Err(ResultsError::NoResults(arguments.first().cloned().unwrap_or_default()));
    }
    found.attachment = match attach {
        Attach::Results => bundle.finish()?,
        Attach::File(path) => Some(read_attachment(path)?),
        Attach::Nothing => None,
    };
    Ok(found)
}

/// All files that the arguments name, without duplicates.
fn input_files(arguments: &[PathBuf]) -> Result<Vec<InputFile>, ResultsError> {
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for argument in arguments {
        let files = expand(argument)?;
        all.extend(files.into_iter().filter(|file| {
            let real = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
            seen.insert(real)
        }));
    }
    Ok(all)
}

/// Expands an argument: a directory, an existing file, or else a pattern.
fn expand(argument: &Path) -> Result<Vec<InputFile>, ResultsError> {
    if argument.is_dir() {
        let is_xml = |path: &Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"));
        let files = walk(argument, usize::MAX, is_xml)?;
        let files: Vec<_> =
            files.into_iter().map(|path| InputFile { path, is_from_directory: true }).collect();
        return if files.is_empty() { Err(ResultsError::NoResults(argument.to_owned())) } else { Ok(files) };
    }
    if argument.exists() {
        return Ok(vec![InputFile { path: argument.to_owned(), is_from_directory: false }]);
    }
    let files = glob_files(argument)?;
    if files.is_empty() {
        return Err(ResultsError::NoFile(argument.to_owned()));
    }
    Ok(files.into_iter().map(|path| InputFile { path, is_from_directory: false }).collect())
}

/// Files that match a pattern.
fn glob_files(argument: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let text = argument.strip_prefix(".").unwrap_or(argument).to_string_lossy();
    let pattern =
        glob::Pattern::new(&text).map_err(|error| ResultsError::Pattern(argument.to_owned(), error))?;
    // Walk only the folder before the first wildcard.
    let is_plain = |part: &Component| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let base: PathBuf = argument.components().take_while(is_plain).collect();
    if base == argument {
        return Ok(Vec::new());
    }
    let is_deep = argument.components().any(|part| part.as_os_str() == "**");
    let depth = argument.components().count() - base.components().count();
    let from = if base.as_os_str().is_empty() { Path::new(".") } else { base.as_path() };
    if !from.is_dir() {
        return Ok(Vec::new());
    }
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    walk(from, if is_deep { usize::MAX } else { depth }, |path| {
        // Match names that are not UTF-8 lossily instead of skipping them.
        pattern.matches_with(&path.strip_prefix(".").unwrap_or(path).to_string_lossy(), options)
    })
}

/// Regular files under a folder that pass the filter, sorted. Symbolic links to folders are not followed, because they
/// may form cycles.
fn walk(
    folder: &Path,
    max_depth: usize,
    filter: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, ResultsError> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).max_depth(max_depth).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(folder).to_owned();
            FileError::Read(path, error.into())
        })?;
        if filter(entry.path()) && entry.path().is_file() {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

fn read_results(path: &Path) -> Result<Vec<u8>, ResultsError> {
    let unreadable = |error| FileError::Read(path.to_owned(), error);
    let size = fs::metadata(path).map_err(unreadable)?.len();
    let too_large = || ResultsError::TooLarge(path.to_owned(), size);
    if size > MAX_RESULTS {
        return Err(too_large());
    }
    read_up_to(MAX_RESULTS, path).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(),
        _ => unreadable(error).into(),
    })
}

/// Names a suite without a name after its file.
fn with_name(mut result: JunitResult, path: &Path) -> JunitResult {
    if result.name.as_str().is_empty() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        result.name = Text::new(stem).unwrap_or_default();
    }
    result
}

fn read_attachment(path: &Path) -> Result<Attachment, ResultsError> {
    let content = read_up_to(MAX_ATTACHMENT as u64, path).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ResultsError::AttachmentTooLarge,
        _ => ResultsError::ReadAttachment(path.to_owned(), error),
    })?;
    Ok(Attachment { name: file_name(path), content: content.into() })
}

/// File name, without characters that would break a multipart header.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.replace(|c: char| c.is_control() || matches!(c, '"' | '\\'), "_")
}

/// Attachment of the results: a single file as it is, several as an archive.
#[derive(Default)]
struct Bundle {
    names: BTreeSet<PathBuf>,
    first: Option<(PathBuf, Vec<u8>)>,
    archive: Option<tar::Builder<GzEncoder<BoundedBuffer>>>,
}

impl Bundle {
    fn add(&mut self, path: PathBuf, bytes: Vec<u8>) -> Result<(), ResultsError> {
        if self.first.is_none() && self.archive.is_none() {
            self.first = Some((path, bytes));
            return Ok(());
        }
        let archive = self.archive.get_or_insert_with(|| {
            // Without times and owners, the same files yield the same bytes.
            let encoder = GzBuilder::new().mtime(0).write(BoundedBuffer::default(), Compression::default());
            tar::Builder::new(encoder)
        });
        for (path, bytes) in self.first.take().into_iter().chain([(path, bytes)]) {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            let number = self.names.len() + 1;
            let name =
                Some(archive_path(&path)).filter(|path| !self.names.contains(path)).unwrap_or_else(|| {
                    // Paths with `..` may collide.
                    PathBuf::from(number.to_string()).join(archive_path(&path))
                });
            archive.append_data(&mut header, &name, bytes.as_slice()).map_err(compress_error)?;
            self.names.insert(name);
        }
        Ok(())
    }

    fn finish(self) -> Result<Option<Attachment>, ResultsError> {
        if let Some(archive) = self.archive {
            let buffer = archive.into_inner().and_then(GzEncoder::finish).map_err(compress_error)?;
            let name = "junit-results.tar.gz".to_owned();
            return Ok(Some(Attachment { name, content: buffer.0.into() }));
        }
        let Some((path, bytes)) = self.first else { return Ok(None) };
        if bytes.len() > MAX_ATTACHMENT {
            return Err(ResultsError::AttachmentTooLarge);
        }
        Ok(Some(Attachment { name: file_name(&path), content: Bytes::from(bytes) }))
    }
}

/// Path of a file in the archive; never outside the folder into which it is extracted.
fn archive_path(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => drop(path.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
        path
    })
}

fn compress_error(error: io::Error) -> ResultsError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ResultsError::AttachmentTooLarge,
        _ => ResultsError::Compress(error),
    }
}

/// Fails to grow beyond the maximum size of an attachment.
#[derive(Default)]
struct BoundedBuffer(Vec<u8>);

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_ATTACHMENT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
