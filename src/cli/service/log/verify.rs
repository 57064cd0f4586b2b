//! `log verify`.

use std::io;
use std::path::PathBuf;

use clap::Args;

use super::pages::{End, checkpoint, read_file, read_service};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::files::{self, FileError, quoted};
use crate::cli::output;
use crate::cli::read::Requests;
use model::log::checkpoint::Checkpoint;
use model::log::note::Note;
use model::log::verification::{Mismatch, Verifier};
use runtime::signing::VerifyingKey;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Verify {
    /// Earlier checkpoint, which the log must extend
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Public key (PEM) that must have signed the checkpoints
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Verify an export instead of the log of the service
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    requests: Requests,
}

const EXAMPLES: &str = "\
Examples:
  Verify the log with a token of role admin, and keep its checkpoint:
    supercargo log verify >checkpoint
  Verify later that it extends the checkpoint, and that the service signed it:
    supercargo log verify --since checkpoint --key signing.pub

Exit code 11: the log does not match the records or a checkpoint. The message names the first entry that differs.";

/// Maximum size of a checkpoint file, in bytes.
const MAX_CHECKPOINT_BYTES: u64 = 64 * 1024;

/// A checkpoint that the key did not sign: where it is, and the file of the key.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint {} is not signed with the key in {}", .0, quoted(.1))]
struct NotSigned(String, PathBuf);

impl Verify {
    pub(super) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let key = self.key.as_deref().map(VerifyingKey::read).transpose().map_err(Failure::usage)?;
        let since = self.since(key.as_ref())?;
        let organization = service.org.as_deref().filter(|organization| !organization.is_empty());
        let mut verifier = Verifier::new(organization, since.map(|checkpoint| checkpoint.head));
        let accept = |entry| verifier.accept(entry).map_err(mismatch);
        let End { checkpoint: note, rows } = match &self.file {
            Some(path) => read_file(path, accept)?,
            None => read_service(service, &self.requests, accept).await?,
        };
        let (parsed, checkpoint) = checkpoint(&note, "of the log").map_err(Failure::unexpected)?;
        self.require_signature(key.as_ref(), &parsed, "of the log")?;
        let head = verifier.finish(&checkpoint, rows.as_ref()).map_err(mismatch)?;
        let signature = match (key.is_some(), parsed.signatures.is_empty()) {
            (true, _) => "the signature is valid",
            (false, true) => "the checkpoint is not signed",
            (false, false) => "the signature was not verified: set --key",
        };
        tracing::info!("verified {} entries of {}; {signature}", head.size, checkpoint.origin);
        if rows.is_none() {
            tracing::info!("the retention ran meanwhile: rows without entries were not searched");
        }
        output::write(&note)
    }

    /// The checkpoint that the log must extend.
    fn since(&self, key: Option<&VerifyingKey>) -> Result<Option<Checkpoint>, Failure> {
        let Some(path) = &self.since else { return Ok(None) };
        let unreadable = |error| Failure::usage(FileError::Read(path.clone(), io::Error::other(error)));
        let bytes = files::read(MAX_CHECKPOINT_BYTES, path).map_err(Failure::usage)?;
        let text = String::from_utf8(bytes).map_err(unreadable)?;
        let place = format!("in {}", quoted(path));
        let (note, checkpoint) = checkpoint(&text, &place).map_err(Failure::usage)?;
        self.require_signature(key, &note, &place)?;
        Ok(Some(checkpoint))
    }

    /// Fails if there is a key that did not sign the checkpoint.
    fn require_signature(&self, key: Option<&VerifyingKey>, note: &Note, place: &str) -> Result<(), Failure> {
        match (key, &self.key) {
            (Some(key), Some(file)) if !key.verifies(note) => {
                let error = NotSigned(place.to_owned(), file.clone());
                Err(Failure::new(error, None, Exit::Mismatch))
            }
            _ => Ok(()),
        }
    }
}

fn mismatch(mismatch: Mismatch) -> Failure {
    Failure::new(mismatch, None, Exit::Mismatch)
}
