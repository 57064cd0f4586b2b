//! Artifacts by digest: given one by one, or in a file.

use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::domain::escape::{Visible, shortened};
use crate::domain::live::collapse::digest_of;
use crate::domain::model::Fingerprint;
use crate::process::files::read_up_to;

#[derive(Debug, Args)]
pub(super) struct Fingerprints {
    /// Digest of an image: 64 hexadecimal digits, sha256:… or name@sha256:…; repeat it for several
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    fingerprint: Vec<Fingerprint>,
    /// File with a digest on each line, as build tools write it
    #[arg(long, value_name = "FILE")]
    fingerprint_file: Option<PathBuf>,
}

/// A file of digests that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FingerprintsError {
    #[error("\"{}\" (--fingerprint-file) cannot be read", Visible(&.0.display().to_string()))]
    Read(PathBuf, #[source] io::Error),
    #[error("\"{}\" (--fingerprint-file), line {}: \"{}\": {EXPECTED}", Visible(&.0.display().to_string()), .1, Visible(.2))]
    Line(PathBuf, usize, String),
    #[error("\"{}\" (--fingerprint-file) holds no digest; one on each line was expected", Visible(&.0.display().to_string()))]
    Empty(PathBuf),
}

const EXPECTED: &str = "a SHA-256 digest was expected, as 64 hexadecimal digits, sha256:… or name@sha256:…";

/// The largest file that is read, in bytes.
const MOST: u64 = 1024 * 1024;

impl Fingerprints {
    /// All of them, each once, in the order in which they were given.
    pub(super) fn read(&self) -> Result<Vec<Fingerprint>, FingerprintsError> {
        let mut all = Vec::new();
        let mut add = |digest| {
            if !all.contains(&digest) {
                all.push(digest);
            }
        };
        self.fingerprint.iter().copied().for_each(&mut add);
        if let Some(path) = &self.fingerprint_file {
            let bytes =
                read_up_to(MOST, path).map_err(|error| FingerprintsError::Read(path.clone(), error))?;
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().map(str::trim).enumerate();
            let mut said = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
            if said.peek().is_none() {
                return Err(FingerprintsError::Empty(path.clone()));
            }
            for (number, line) in said {
                let wrong = || FingerprintsError::Line(path.clone(), number + 1, shortened(line, 100));
                add(digest_of(line).ok_or_else(wrong)?);
            }
        }
        Ok(all)
    }
}

/// Reads a digest as tools write it.
pub(super) fn digest(text: &str) -> Result<Fingerprint, String> {
    digest_of(text).ok_or_else(|| EXPECTED.to_owned())
}
