//! `log export`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use super::pages::read_service;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::files::{FileError, quoted};
use crate::cli::read::Requests;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Export {
    /// File to write: one JSON object per line, the entries and then the checkpoint
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    requests: Requests,
}

const EXAMPLE: &str = "\
Example:
  Export the log with a token of role admin, and verify it on another machine:
    supercargo log export --output acme.jsonl
    supercargo log verify --file acme.jsonl";

impl Export {
    pub(super) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let path = self.output.as_path();
        let failed = |error| Failure::unexpected(FileError::Write(path.to_owned(), error));
        let mut output = BufWriter::new(std::fs::File::create(path).map_err(failed)?);
        let mut entries = 0_u64;
        let end = read_service(service, &self.requests, |entry| {
            entries += 1;
            write_line(&mut output, &entry).map_err(failed)
        });
        let end = end.await?;
        write_line(&mut output, &end).map_err(failed)?;
        output.flush().map_err(failed)?;
        // Not on stdout, which may be the file.
        tracing::info!("exported {entries} entries to {}", quoted(path));
        Ok(())
    }
}

fn write_line(output: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line)?;
    output.write_all(b"\n")
}
