//! `download attestation`.

use std::fs;
use std::path::PathBuf;

use clap::Subcommand;

use super::common::{Requests, client};
use crate::cli::connection::ServiceOptions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::files::{FileError, OutputFile, quoted};
use crate::cli::output::say;
use client::Resource;
use model::Fingerprint;
use model::escape::{Escaped, needs_escape};

#[derive(Debug, Subcommand)]
pub(crate) enum Subject {
    /// Save the file that is attached to an attestation, and verify its SHA-256; existing files are kept
    #[command(after_help = EXAMPLE)]
    Attestation {
        /// Identifier of the attestation, as `list attestations` prints it
        #[arg(value_parser = attestation_id)]
        id: String,
        /// Directory for the file, which is created if it does not exist
        #[arg(long, value_name = "DIR")]
        output_dir: PathBuf,
        #[command(flatten)]
        requests: Requests,
    },
}

const EXAMPLE: &str = "\
Example:
  Save the test results of an attestation in the directory evidence:
    supercargo download attestation 0192f0c1-7a3e-7c55-9d0b-3f1f6a2b8c4d --output-dir evidence

The name of the file is the reporter's, or the identifier if that is no plain file name.
Exit code 11: the file does not match its SHA-256. Nothing is written.";

#[derive(Debug, thiserror::Error)]
#[error("the file of the attestation {0} does not match the SHA-256 that the service states")]
struct Corrupt(String);

impl Subject {
    pub(crate) async fn run(&self, service: &ServiceOptions) -> Result<(), Failure> {
        let Subject::Attestation { id, output_dir, requests } = self;
        let (client, about) = (client(service)?, Resource::Named("attestation", id));
        let download = async || client.attached_file(id).await;
        let file = requests.read(&client, about, download).await?;
        let sha256 = Fingerprint::from_content(&file.content);
        if file.sha256 != Some(sha256) {
            return Err(Failure::new(Corrupt(id.clone()), None, Exit::Mismatch));
        }
        let name = file.name.as_deref().filter(|name| is_plain(name)).unwrap_or(id);
        if let Some(other) = file.name.as_deref().filter(|other| *other != name) {
            tracing::warn!("the name \"{}\" is not used: expected a plain file name", Escaped(other));
        }
        let path = output_dir.join(name);
        let created = fs::create_dir_all(output_dir).map_err(|error| FileError::Write(path.clone(), error));
        let written = created.and_then(|()| OutputFile::create(&path)).and_then(|mut saved| {
            saved.write(&file.content)?;
            saved.finish()
        });
        written.map_err(Failure::usage)?;
        say(format_args!("saved {}, sha256:{sha256}", quoted(&path)))
    }
}

/// Whether a name is that of a visible file in the same directory, and displayed as it is.
fn is_plain(name: &str) -> bool {
    let is_long = name.len() > 255;
    !name.is_empty()
        && !is_long
        && !name.starts_with('.')
        && !name.contains(|c| "/\\".contains(c) || needs_escape(c))
}

/// A file name may be made of it.
pub(super) fn attestation_id(text: &str) -> Result<String, &'static str> {
    let is_valid =
        (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_valid
        .then(|| text.to_owned())
        .ok_or("expected the identifier of an attestation, which has only letters, digits and '-'")
}
