//! `supercargo log`: verifies and exports the log of acknowledged changes. One file per command.
//!
//! Reads the log page by page, from the service or from an export, and passes each entry to
//! `model::log::verification`.

mod export;
mod pages;
mod verify;

use clap::{Args, Subcommand};

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;

#[derive(Debug, Args)]
#[command(subcommand_required = true)]
pub(crate) struct Log {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    service: ServiceOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Verify that no recorded change was altered or removed, and print the checkpoint of the log
    Verify(verify::Verify),
    /// Write the log and its records to a file, to be verified elsewhere
    Export(export::Export),
}

impl Log {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Verify(verify) => verify.run(&self.service).await,
            Command::Export(export) => export.run(&self.service).await,
        }
    }
}
