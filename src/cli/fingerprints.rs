//! Parses the digests of artifacts from options and files.

use std::path::PathBuf;
use std::str::FromStr;

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
    digest_of(text).ok_or_else(|| match digits_of(text) {
        Some(_) => "expected all 64 digits: another image can have the same first digits".to_owned(),
        None => EXPECTED.to_owned(),
    })
}

/// A digest or its first digits, to read: another artifact can have the same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DigestPrefix {
    Whole(Fingerprint),
    /// In lower case.
    Digits(String),
}

/// Minimum number of digits, as git abbreviates hashes.
const MIN_DIGITS: usize = 7;

/// The first digits of a digest, in lower case.
fn digits_of(text: &str) -> Option<String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let is_prefix = (MIN_DIGITS..64).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_prefix.then(|| digits.to_ascii_lowercase())
}

impl FromStr for DigestPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = digest_of(text).map(Self::Whole);
        let prefix = whole.or_else(|| digits_of(text).map(Self::Digits));
        prefix.ok_or_else(|| format!("expected a SHA-256 digest, or at least its first {MIN_DIGITS} digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_seven_digits_select_a_digest_to_read() {
        let whole = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";
        let parsed = whole.parse().ok().and_then(|prefix| digest_of_prefix(&prefix));
        assert_eq!(parsed, digest_of(whole));
        for text in ["7c9bbe5", "7C9BBE5", "sha256:7c9bbe5"] {
            assert_eq!(text.parse(), Ok(DigestPrefix::Digits("7c9bbe5".to_owned())), "{text}");
        }
        for text in ["", "7c9bbe", "sha256:7c9bbe", "7c9bbe5x", "cart@7c9bbe5", &format!("{whole}0")] {
            assert!(text.parse::<DigestPrefix>().is_err(), "{text}");
        }
    }

    fn digest_of_prefix(prefix: &DigestPrefix) -> Option<Fingerprint> {
        match prefix {
            DigestPrefix::Whole(digest) => Some(*digest),
            DigestPrefix::Digits(_) => None,
        }
    }

    #[test]
    fn shortened_digest_is_rejected_where_all_digits_count() {
        assert!(digest("7c9bbe5ec9b3").unwrap_err().starts_with("expected all 64 digits"));
        assert_eq!(digest("cart").unwrap_err(), EXPECTED);
    }
}
