//! `supercargo completions` and `supercargo man`: generated from the command line's definition.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::Failure;
use super::output::write;
use crate::domain::escape::Escaped;

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct Completions {
    /// Shell type
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct Man {
    /// Directory for the pages
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  Load completions into the current bash, and into every new one:
    source <(supercargo completions bash)
    supercargo completions bash >~/.local/share/bash-completion/completions/supercargo";

const MAN_EXAMPLES: &str = "\
Examples:
  Install the pages for the current user:
    mkdir -p ~/.local/share/man/man1
    supercargo man ~/.local/share/man/man1
    man supercargo-agent";

/// The output could not be written.
#[derive(Debug, thiserror::Error)]
enum ManualError {
    #[error("failed to write manual pages to \"{}\"", Escaped(&.0.display().to_string()))]
    Man(PathBuf, #[source] io::Error),
    #[error("failed to write completions")]
    Completions(#[source] io::Error),
}

impl Completions {
    pub(super) fn run(&self, mut command: Command) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "supercargo", &mut text);
        write(&String::from_utf8_lossy(&text)).map_err(|e| Failure::unexpected(ManualError::Completions(e)))
    }
}

impl Man {
    pub(super) fn run(&self, command: Command) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(command, &self.folder))
            .map_err(|e| Failure::usage(ManualError::Man(self.folder.clone(), e)))
    }
}
