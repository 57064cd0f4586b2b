//! Finds and reads the files of test results, and builds the attachment.
//!
//! Each file is read once, so that the attached bytes are the counted ones. Only the patterns of `glob` are used: its walk
//! follows links and skips names that are not UTF-8.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use walkdir::WalkDir;

use crate::cli::files::{FileError, quoted};
use client::Attachment;
use junit::{Decisions, JunitError, Problem, ResultFiles};
use model::JunitResult;
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
    pub(super) decisions: Decisions,
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
    let mut read = ResultFiles::default();
    let (mut files, mut bundle) = (0, Bundle::default());
    for file in input_files(arguments)? {
        match read_file(&mut read, &file) {
            Err(error) if file.is_from_directory && error.is_other_file(&file.path) => {
                tracing::info!("skipped {}: {}", quoted(&file.path), error.reason());
            }
            content => {
                let content = content?;
                files += 1;
                if attach == Attach::Results {
                    bundle.add(file.path, content)?;
                }
            }
        }
    }
    if files == 0 {
        return Err(ResultsError::NoResults(arguments.first().cloned().unwrap_or_default()));
    }
    let attachment = match attach {
        Attach::Results => bundle.finish()?,
        Attach::File(path) => Some(read_attachment(path)?),
        Attach::Nothing => None,
    };
    let junit::Results { results, decisions } = read.results();
    Ok(TestResults { results, decisions, files, attachment })
}

fn read_file(read: &mut ResultFiles, file: &InputFile) -> Result<Vec<u8>, ResultsError> {
    let bytes = read_results(&file.path)?;
    read.add(&file.path, &bytes).map_err(|error| ResultsError::NotJunit(file.path.clone(), error))?;
    Ok(bytes)
}

impl ResultsError {
    /// Whether a file in a directory is of another kind, so that no test is missing without it. By its name, a file
    /// `TEST-*.xml` has results, unless its root element is another one.
    fn is_other_file(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_named_so = name.starts_with("TEST-") || name.starts_with("TESTS-");
        match self {
            Self::NotJunit(_, JunitError { problem: Problem::Root(_), .. }) => true,
            Self::NotJunit(_, error) => !is_named_so && !error.may_have_suites,
            Self::TooLarge(..) => !is_named_so && !starts_with_suites(path),
            _ => false,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::NotJunit(_, error) => error.problem.to_string(),
            error => error.to_string(),
        }
    }
}

/// Whether a file that is not read may have suites.
fn starts_with_suites(path: &Path) -> bool {
    const MAX_START: u64 = 64 * 1024;

    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_START).read_to_end(&mut start));
    read.is_err() || junit::may_have_suites(&start)
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

pub(super) fn read_attachment(path: &Path) -> Result<Attachment, ResultsError> {
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

/// Attachment of the results: a single file as it is if it fits, others as a compressed archive.
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
        if let Some((path, bytes)) = self.first.take() {
            self.append(&path, &bytes)?;
        }
        self.append(&path, &bytes)
    }

    fn append(&mut self, path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
        let archive = self.archive.get_or_insert_with(|| {
            // Without times and owners, the same files yield the same bytes.
            let encoder = GzBuilder::new().mtime(0).write(BoundedBuffer::default(), Compression::default());
            tar::Builder::new(encoder)
        });
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        let number = self.names.len() + 1;
        let name = Some(archive_path(path)).filter(|path| !self.names.contains(path)).unwrap_or_else(|| {
            // Paths with `..` may collide.
            PathBuf::from(number.to_string()).join(archive_path(path))
        });
        archive.append_data(&mut header, &name, bytes).map_err(compress_error)?;
        self.names.insert(name);
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Attachment>, ResultsError> {
        match self.first.take() {
            Some((path, bytes)) if bytes.len() <= MAX_ATTACHMENT => {
                return Ok(Some(Attachment { name: file_name(&path), content: Bytes::from(bytes) }));
            }
            Some((path, bytes)) => self.append(&path, &bytes)?,
            None => {}
        }
        let Some(archive) = self.archive else { return Ok(None) };
        let buffer = archive.into_inner().and_then(GzEncoder::finish).map_err(compress_error)?;
        let name = "junit-results.tar.gz".to_owned();
        Ok(Some(Attachment { name, content: buffer.0.into() }))
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
