//! `log export`.

use std::path::PathBuf;

use clap::Args;

use super::pages::read_service;
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;
use crate::cli::files::{OutputFile, quoted};
use crate::cli::read::Requests;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Export {
    /// File to write: one JSON object per line, the entries and then the checkpoint; an existing file is kept
    #[arg(long, value_name = "FILE")]
    output_file: PathBuf,
    #[command(flatten)]
    requests: Requests,
}

const EXAMPLE: &str = "\
Example:
  Export the log with a token of role admin, and verify it on another machine:
    supercargo log export --output-file acme.jsonl
    supercargo log verify --file acme.jsonl";

impl Export {
    pub(super) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let mut file = OutputFile::create(&self.output_file).map_err(Failure::usage)?;
        let mut entries = 0_u64;
        let end = read_service(service, &self.requests, |entry| {
            entries += 1;
            write_line(&mut file, &entry)
        });
        let end = end.await?;
        write_line(&mut file, &end)?;
        file.finish().map_err(Failure::usage)?;
        // Not on stdout, which may be the file.
        tracing::info!("exported {entries} entries to {}", quoted(&self.output_file));
        Ok(())
    }
}

fn write_line(file: &mut OutputFile, line: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec(line).map_err(Failure::unexpected)?;
    text.push(b'\n');
    file.write(&text).map_err(Failure::usage)
}
