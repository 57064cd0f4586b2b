//! `supercargo completions` and `supercargo man`: generated from the command line's definition.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::exit::Failure;
use crate::cli::files::FileError;
use crate::cli::output::write;

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// Shell type
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct Man {
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

impl Completions {
    pub(crate) fn run(&self, mut command: Command) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "supercargo", &mut text);
        write(&String::from_utf8_lossy(&text))
    }
}

impl Man {
    pub(crate) fn run(&self, command: Command) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(command, &self.folder))
            .map_err(|e| Failure::usage(FileError::Write(self.folder.clone(), e)))
    }
}
