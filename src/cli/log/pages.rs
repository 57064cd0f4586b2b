//! Reads a log page by page, from the service or from an export.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::api::{Operation, Resource};
use crate::cli::exit::Failure;
use crate::cli::read::{Requests, client};
use crate::cli::service::Service;
use crate::domain::evidence::log::Kind;
use crate::domain::evidence::log::checkpoint::{Checkpoint, InvalidCheckpoint};
use crate::domain::evidence::log::note::{InvalidNote, Note};
use crate::domain::evidence::log::verification::{RecordedEntry, RowCounts};

/// A page of the log.
#[derive(Debug, Clone, Deserialize)]
struct LogPage {
    /// Oldest first.
    entries: Vec<RecordedEntry>,
    /// The checkpoint of the whole log, as a note.
    checkpoint: String,
    /// On the last page: the numbers of stored rows.
    rows: Option<RowCounts>,
}

/// The last line of an export.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct End {
    /// The checkpoint of the log, as a note.
    pub(super) checkpoint: String,
    /// The numbers of stored rows; absent if the retention removed rows meanwhile.
    pub(super) rows: Option<RowCounts>,
}

/// Maximum length of a line of an export, in bytes: above the service's maximum of a record.
const MAX_LINE_BYTES: u64 = 512 * 1024 * 1024;

/// A log that is not readable.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogError {
    #[error("failed to read \"{}\"", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("invalid line {} in \"{}\": expected an entry of a log", .1, .0.display())]
    Line(PathBuf, u64, #[source] serde_json::Error),
    #[error("\"{}\" has no checkpoint at its end: the export is incomplete", .0.display())]
    Incomplete(PathBuf),
    #[error("invalid checkpoint in \"{}\"", .0.display())]
    Note(PathBuf, #[source] InvalidNote),
    #[error("invalid checkpoint in \"{}\"", .0.display())]
    Checkpoint(PathBuf, #[source] InvalidCheckpoint),
    #[error("invalid checkpoint of the service")]
    ServiceNote(#[from] InvalidNote),
    #[error("invalid checkpoint of the service")]
    ServiceCheckpoint(#[from] InvalidCheckpoint),
}

/// Reads the log of the service, and returns its end. `accept` gets each entry.
pub(super) async fn read_service(
    service: &Service,
    requests: &Requests,
    mut accept: impl FnMut(RecordedEntry) -> Result<(), Failure>,
) -> Result<End, Failure> {
    let client = client(service)?;
    let (mut after, mut first_size, mut has_removals) = (0, None, false);
    loop {
        let operation = Operation::new(Resource::Organization, &["log"]).with("after", [after]);
        let send = async || client.get::<LogPage>(&operation).await;
        let page = requests.retry(&client, "reading the log", operation.about, send).await?;
        let size = checkpoint(&page.checkpoint)?.1.head.size;
        let first_size = *first_size.get_or_insert(size);
        let Some(last) = page.entries.last().map(|last| last.entry.sequence) else {
            return Ok(End { checkpoint: page.checkpoint, rows: page.rows.filter(|_| !has_removals) });
        };
        for entry in page.entries {
            // Rows that were counted in earlier pages are no longer stored.
            has_removals |= entry.entry.sequence > first_size && entry.entry.kind == Kind::Removal.as_str();
            accept(entry)?;
        }
        if page.rows.is_some() {
            return Ok(End { checkpoint: page.checkpoint, rows: page.rows.filter(|_| !has_removals) });
        }
        after = last;
    }
}

/// Reads an export, and returns its end. `accept` gets each entry.
pub(super) fn read_file(
    path: &Path,
    mut accept: impl FnMut(RecordedEntry) -> Result<(), Failure>,
) -> Result<End, Failure> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Line {
        End(End),
        Entry(Box<RecordedEntry>),
    }
    let unreadable = |error| Failure::usage(LogError::Read(path.to_owned(), error));
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        let invalid = |error| Failure::usage(LogError::Line(path.to_owned(), number, error));
        match serde_json::from_slice(&line).map_err(invalid)? {
            Line::End(end) => return Ok(end),
            Line::Entry(entry) => accept(*entry)?,
        }
    }
    Err(Failure::usage(LogError::Incomplete(path.to_owned())))
}

/// Parses a checkpoint.
pub(super) fn checkpoint(note: &str) -> Result<(Note, Checkpoint), Failure> {
    let parsed = || {
        let note = Note::parse(note)?;
        let checkpoint = Checkpoint::parse(&note.text)?;
        Ok((note, checkpoint))
    };
    parsed().map_err(|error: LogError| Failure::unexpected(error))
}
