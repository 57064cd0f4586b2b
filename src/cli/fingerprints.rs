//! Parses the digests of artifacts from options and files.

use std::path::PathBuf;

use clap::Args;

use crate::cli::files::{self, FileError, quoted};
use model::Fingerprint;
use model::escape::{Escaped, shortened};
use model::image_id::digest_of;

#[derive(Debug, Args)]
pub(crate) struct Fingerprints {
    /// Digest of an image, as 64 hexadecimal digits, sha256:… or name@sha256:…; repeatable
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    fingerprint: Vec<Fingerprint>,
    /// File with one digest per line
    #[arg(long, value_name = "FILE")]
    fingerprint_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FingerprintsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} (--fingerprint-file), line {}: {EXPECTED}, got \"{}\"", quoted(.0), .1, Escaped(.2))]
    Line(PathBuf, usize, String),
    #[error("{} (--fingerprint-file) contains no digest: expected one per line", quoted(.0))]
    Empty(PathBuf),
}

const EXPECTED: &str = "expected a SHA-256 digest as 64 hexadecimal digits, sha256:… or name@sha256:…";

/// Maximum size of a digest file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

impl Fingerprints {
    /// All distinct digests, in the given order.
    pub(crate) fn read(&self) -> Result<Vec<Fingerprint>, FingerprintsError> {
        let mut all = Vec::new();
        let mut add = |digest| {
            if !all.contains(&digest) {
                all.push(digest);
            }
        };
        self.fingerprint.iter().copied().for_each(&mut add);
        if let Some(path) = &self.fingerprint_file {
            let bytes = files::read_option(MAX_FILE_BYTES, path, "--fingerprint-file")?;
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().map(str::trim).enumerate();
            let mut digests = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
            if digests.peek().is_none() {
                return Err(FingerprintsError::Empty(path.clone()));
            }
            for (number, line) in digests {
                let invalid = || FingerprintsError::Line(path.clone(), number + 1, shortened(line, 100));
                add(digest_of(line).ok_or_else(invalid)?);
            }
        }
        Ok(all)
    }
}

/// Parses a digest in any of the accepted forms.
pub(crate) fn digest(text: &str) -> Result<Fingerprint, String> {
    digest_of(text).ok_or_else(|| EXPECTED.to_owned())
}
