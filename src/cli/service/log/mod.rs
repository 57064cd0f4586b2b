//! `supercargo log`: verifies and exports the log of acknowledged changes. One file per command.
//!
//! Reads the log page by page, from the service or from an export, and passes each entry to
//! `model::log::verification`.

mod export;
mod pages;
mod verify;

use clap::Subcommand;

use crate::cli::connection::ServiceOptions;
use crate::cli::exit::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Verify that no recorded change was altered or removed, and print the checkpoint of the log
    Verify(verify::Verify),
    /// Write the log and its records to a file, to be verified elsewhere
    Export(export::Export),
}

impl Command {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        match self {
            Command::Verify(verify) => verify.run(service).await,
            Command::Export(export) => export.run(service).await,
        }
    }
}
