//! `supercargo completions` and `supercargo man`: what the command line says of itself.

use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::output::write;
use super::{Cli, Failure};
use crate::domain::escape::Visible;

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct Man {
    /// Folder to write the pages to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  For this bash, and for each to come:
    source <(supercargo completions bash)
    supercargo completions bash >~/.local/share/bash-completion/completions/supercargo";

const MAN_EXAMPLES: &str = "\
Examples:
  For this user:
    mkdir -p ~/.local/share/man/man1
    supercargo man ~/.local/share/man/man1
    man supercargo-agent";

/// The pages cannot be written, or the completions.
#[derive(Debug, thiserror::Error)]
enum ManualError {
    #[error("the manual pages cannot be written to \"{}\"", Visible(&.0.display().to_string()))]
    Man(PathBuf, #[source] io::Error),
    #[error("the completions cannot be written")]
    Completions(#[source] io::Error),
}

impl Completions {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "supercargo", &mut text);
        write(&String::from_utf8_lossy(&text)).map_err(|e| Failure::unexpected(ManualError::Completions(e)))
    }
}

impl Man {
    pub(super) fn run(&self) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &self.folder))
            .map_err(|e| Failure::usage(ManualError::Man(self.folder.clone(), e)))
    }
}
