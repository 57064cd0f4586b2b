//! What a test runner wrote: which files are meant, what they hold, and the files themselves to attach.
//!
//! A file is read whole, one after the other, so that what is attached is what was counted.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use walkdir::WalkDir;

use crate::api::Attachment;
use crate::domain::attestation::junit::{self, Doubt, NotJunit, Problem};
use crate::domain::escape::Visible;
use crate::domain::model::{JunitResult, Text};
use crate::process::files::read_up_to;

/// The largest file of results that is read, in bytes.
const MOST_RESULTS: u64 = 64 * 1024 * 1024;

/// The largest attachment that the interface takes, in bytes (interface, Limits).
const MOST_ATTACHED: usize = 10_000_000;

/// What is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attach<'a> {
    /// The results themselves.
    Results,
    /// Another file.
    File(&'a Path),
    /// Nothing.
    Nothing,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) results: Vec<JunitResult>,
    /// What is in doubt, with the file that it is in.
    pub(super) doubts: Vec<(PathBuf, Doubt)>,
    /// How many files there are.
    pub(super) files: usize,
    pub(super) attachment: Option<Attachment>,
}

/// Results that cannot be attested.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResultsError {
    #[error("{} is no file, and as a pattern it finds none; a file in JUnit XML, a directory that holds some, or a pattern as 'build/**/TEST-*.xml' was expected", quoted(.0))]
    NoFile(PathBuf),
    #[error("the directory {} holds no file in JUnit XML; such files end in .xml", quoted(.0))]
    NoResults(PathBuf),
    #[error("the pattern {} cannot be used", quoted(.0))]
    Pattern(PathBuf, #[source] glob::PatternError),
    #[error("{} cannot be read", quoted(.0))]
    Read(PathBuf, #[source] io::Error),
    #[error("{} takes {} bytes or more; at most {MOST_RESULTS} are read of a file of results", quoted(.0), .1)]
    Large(PathBuf, u64),
    #[error("{} is no JUnit XML", quoted(.0))]
    NotJunit(PathBuf, #[source] NotJunit),
    #[error("the attachment would take more than {MOST_ATTACHED} bytes, which is all that the service takes")]
    Attachment,
    #[error("the attachment {} cannot be read", quoted(.0))]
    Attached(PathBuf, #[source] io::Error),
    #[error("the results cannot be packed")]
    Pack(#[source] io::Error),
}

/// A file that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Meant {
    path: PathBuf,
    /// It was found in a directory, where files of other kinds may lie too.
    is_found: bool,
}

/// Reads what the arguments mean: files, directories, patterns.
pub(super) fn read(arguments: &[PathBuf], attach: Attach<'_>) -> Result<Read, ResultsError> {
    let mut found = Read { results: Vec::new(), doubts: Vec::new(), files: 0, attachment: None };
    let mut pack = Pack::default();
    for Meant { path, is_found } in every(arguments)? {
        let bytes = content(&path)?;
        let read = match junit::read(&bytes) {
            Err(NotJunit { problem: problem @ Problem::Root(_), .. }) if is_found => {
                tracing::info!("left out {}: {problem}", quoted(&path));
                continue;
            }
            read => read.map_err(|error| ResultsError::NotJunit(path.clone(), error))?,
        };
        found.files += 1;
        read.results.into_iter().for_each(|result| junit::add(&mut found.results, named(result, &path)));
        found.doubts.extend(read.doubts.into_iter().map(|doubt| (path.clone(), doubt)));
        if attach == Attach::Results {
            pack.add(path, bytes)?;
        }
    }
    if found.files == 0 {
        return Err(ResultsError::NoResults(arguments.first().cloned().unwrap_or_default()));
    }
    found.attachment = match attach {
        Attach::Results => pack.finish()?,
        Attach::File(path) => Some(attached(path)?),
        Attach::Nothing => None,
    };
    Ok(found)
}

/// Every file that is meant, each once.
fn every(arguments: &[PathBuf]) -> Result<Vec<Meant>, ResultsError> {
    let mut every = Vec::new();
    let mut seen = BTreeSet::new();
    for argument in arguments {
        let files = meant(argument)?;
        every.extend(files.into_iter().filter(|file| {
            let real = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
            seen.insert(real)
        }));
    }
    Ok(every)
}

/// What an argument means: what is there under this very name, or what it finds as a pattern.
fn meant(argument: &Path) -> Result<Vec<Meant>, ResultsError> {
    if argument.is_dir() {
        let is_xml = |path: &Path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"));
        let files = walk(argument, usize::MAX, is_xml)?;
        let files: Vec<_> = files.into_iter().map(|path| Meant { path, is_found: true }).collect();
        return if files.is_empty() { Err(ResultsError::NoResults(argument.to_owned())) } else { Ok(files) };
    }
    if argument.exists() {
        return Ok(vec![Meant { path: argument.to_owned(), is_found: false }]);
    }
    let files = matching(argument)?;
    if files.is_empty() {
        return Err(ResultsError::NoFile(argument.to_owned()));
    }
    Ok(files.into_iter().map(|path| Meant { path, is_found: false }).collect())
}

/// The files that a pattern finds.
fn matching(argument: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let text = argument.strip_prefix(".").unwrap_or(argument).to_string_lossy();
    let pattern =
        glob::Pattern::new(&text).map_err(|error| ResultsError::Pattern(argument.to_owned(), error))?;
    // What is before the first part that is a pattern is a folder, and nothing elsewhere can match.
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
        // A name that is no text is matched as far as it is one, and never passed over.
        pattern.matches_with(&path.strip_prefix(".").unwrap_or(path).to_string_lossy(), options)
    })
}

/// The regular files under a folder that are wanted, sorted. Symbolic links to folders are not followed:
/// they can lead back, and what they lead to is elsewhere.
fn walk(
    folder: &Path,
    deepest: usize,
    is_wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, ResultsError> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).max_depth(deepest).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(folder).to_owned();
            ResultsError::Read(path, error.into())
        })?;
        if is_wanted(entry.path()) && entry.path().is_file() {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

fn content(path: &Path) -> Result<Vec<u8>, ResultsError> {
    let unreadable = |error| ResultsError::Read(path.to_owned(), error);
    let size = fs::metadata(path).map_err(unreadable)?.len();
    let large = || ResultsError::Large(path.to_owned(), size);
    if size > MOST_RESULTS {
        return Err(large());
    }
    read_up_to(MOST_RESULTS, path).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => large(),
        _ => unreadable(error),
    })
}

/// A suite without a name goes by its file's.
fn named(mut result: JunitResult, path: &Path) -> JunitResult {
    if result.name.as_str().is_empty() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        result.name = Text::new(stem).unwrap_or_default();
    }
    result
}

fn attached(path: &Path) -> Result<Attachment, ResultsError> {
    let content = read_up_to(MOST_ATTACHED as u64, path).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ResultsError::Attachment,
        _ => ResultsError::Attached(path.to_owned(), error),
    })?;
    Ok(Attachment { name: file_name(path), content: content.into() })
}

/// The name of a file, with nothing in it that a form's header would be read otherwise for.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.replace(|c: char| c.is_control() || matches!(c, '"' | '\\'), "_")
}

/// One file as it is, or an archive of several.
#[derive(Default)]
struct Pack {
    names: BTreeSet<PathBuf>,
    first: Option<(PathBuf, Vec<u8>)>,
    archive: Option<tar::Builder<GzEncoder<Bounded>>>,
}

impl Pack {
    fn add(&mut self, path: PathBuf, bytes: Vec<u8>) -> Result<(), ResultsError> {
        if self.first.is_none() && self.archive.is_none() {
            self.first = Some((path, bytes));
            return Ok(());
        }
        let archive = self.archive.get_or_insert_with(|| {
            // No time and no owner: the same files give the same bytes.
            let packed = GzBuilder::new().mtime(0).write(Bounded::default(), Compression::default());
            tar::Builder::new(packed)
        });
        for (path, bytes) in self.first.take().into_iter().chain([(path, bytes)]) {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            let name = self.names.len() + 1;
            let name = Some(inner(&path)).filter(|path| !self.names.contains(path)).unwrap_or_else(|| {
                // Two folders above the working directory may look alike from it.
                PathBuf::from(name.to_string()).join(inner(&path))
            });
            archive.append_data(&mut header, &name, bytes.as_slice()).map_err(packing)?;
            self.names.insert(name);
        }
        Ok(())
    }

    fn finish(self) -> Result<Option<Attachment>, ResultsError> {
        if let Some(archive) = self.archive {
            let packed = archive.into_inner().and_then(GzEncoder::finish).map_err(packing)?;
            let name = "junit-results.tar.gz".to_owned();
            return Ok(Some(Attachment { name, content: packed.0.into() }));
        }
        let Some((path, bytes)) = self.first else { return Ok(None) };
        if bytes.len() > MOST_ATTACHED {
            return Err(ResultsError::Attachment);
        }
        Ok(Some(Attachment { name: file_name(&path), content: Bytes::from(bytes) }))
    }
}

/// The path that a file has in the archive: its own, but never out of the folder that it is unpacked in.
fn inner(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut inner, component| {
        match component {
            Component::Normal(name) => inner.push(name),
            Component::ParentDir => drop(inner.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
        inner
    })
}

fn packing(error: io::Error) -> ResultsError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ResultsError::Attachment,
        _ => ResultsError::Pack(error),
    }
}

/// Bytes, up to what may be attached.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_ATTACHED {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", Visible(&path.display().to_string()))
}
