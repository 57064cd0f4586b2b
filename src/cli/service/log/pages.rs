//! Reads a log page by page, from the service or from an export.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::files::{FileError, quoted};
use crate::cli::read::{Requests, client};
use client::{Operation, Resource};
use model::log::Kind;
use model::log::checkpoint::Checkpoint;
use model::log::note::Note;
use model::log::verification::{RecordedEntry, RowCounts};

#[derive(Debug, Clone, Deserialize)]
struct LogPage {
    /// Oldest first.
    entries: Vec<RecordedEntry>,
    /// The checkpoint of the whole log; on the last page, with the numbers of stored rows.
    #[serde(flatten)]
    end: End,
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

#[derive(Debug, thiserror::Error)]
pub(super) enum LogError {
    #[error("invalid line {} in {}: expected an entry of a log", .1, quoted(.0))]
    Line(PathBuf, u64, #[source] serde_json::Error),
    #[error("{} has no checkpoint at its end: the export is incomplete", quoted(.0))]
    Incomplete(PathBuf),
    /// Where the checkpoint is.
    #[error("invalid checkpoint {0}")]
    Checkpoint(String, #[source] Box<dyn Error>),
}

/// Reads the log of the service, and returns its end. `accept` gets each entry.
pub(super) async fn read_service(
    service: &ServiceOptions,
    requests: &Requests,
    mut accept: impl FnMut(RecordedEntry) -> Result<(), Failure>,
) -> Result<End, Failure> {
    let client = client(service)?;
    let (mut after, mut first_size, mut has_removals) = (0, None, false);
    loop {
        let operation = Operation::new(Resource::Organization, &["log"]).with("after", [after]);
        let send = async || client.get::<LogPage>(&operation).await;
        let LogPage { entries, mut end } =
            requests.retry(&client, "reading the log", operation.about, send).await?;
        let (_, checkpoint) = checkpoint(&end.checkpoint, "of the service").map_err(Failure::unexpected)?;
        let first_size = *first_size.get_or_insert(checkpoint.head.size);
        let last = entries.last().map(|last| last.entry.sequence);
        for entry in entries {
            // Rows that were counted in earlier pages are no longer stored.
            has_removals |= entry.entry.sequence > first_size && entry.entry.kind == Kind::Removal.as_str();
            accept(entry)?;
        }
        match last {
            Some(last) if end.rows.is_none() => after = last,
            _ => {
                end.rows = end.rows.filter(|_| !has_removals);
                return Ok(end);
            }
        }
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
    let unreadable = |error| Failure::usage(FileError::Read(path.to_owned(), error));
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

/// Parses a checkpoint. `place` is where it is.
pub(super) fn checkpoint(note: &str, place: &str) -> Result<(Note, Checkpoint), LogError> {
    let parsed = || {
        let note = Note::parse(note)?;
        let checkpoint = Checkpoint::parse(&note.text)?;
        Ok((note, checkpoint))
    };
    parsed().map_err(|error: Box<dyn Error>| LogError::Checkpoint(place.to_owned(), error))
}
