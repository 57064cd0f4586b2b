//! The text of a checkpoint, in the format of transparency logs (C2SP, tlog-checkpoint): origin, size and hash.
//!
//! The third line is the hash of the last entry instead of the root of a Merkle tree.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Head;
use crate::Fingerprint;
use crate::escape::Escaped;

/// A checkpoint: what a log contained at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the log: host and path of the service, and the organization.
    pub origin: String,
    pub head: Head,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid checkpoint: expected the lines origin, size and base64 hash, got \"{}\"", Escaped(.0))]
pub struct InvalidCheckpoint(String);

/// Maximum number of characters of unreadable text in an error.
const MAX_SHOWN: usize = 80;

impl Checkpoint {
    /// Parses the text of a note.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpoint`] for other text. Extension lines are allowed.
    pub fn parse(text: &str) -> Result<Self, InvalidCheckpoint> {
        let parsed = || {
            let mut lines = text.strip_suffix('\n')?.split('\n');
            let (origin, size, hash) = (lines.next()?, lines.next()?, lines.next()?);
            let number: i64 = size.parse().ok()?;
            let is_canonical = number >= 0 && number.to_string() == size;
            let hash: [u8; 32] = STANDARD.decode(hash).ok()?.try_into().ok()?;
            let head = Head { size: number, hash: Fingerprint::from(hash) };
            let is_valid = is_canonical && !origin.is_empty() && lines.all(|line| !line.is_empty());
            is_valid.then(|| Self { origin: origin.to_owned(), head })
        };
        parsed().ok_or_else(|| InvalidCheckpoint(text.chars().take(MAX_SHOWN).collect()))
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.head.size, STANDARD.encode(self.head.hash.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification, without its signature.
    const EXAMPLE: &str =
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";

    #[test]
    fn published_checkpoint_is_parsed_and_formatted() {
        let checkpoint = Checkpoint::parse(EXAMPLE).unwrap();
        assert_eq!(
            (checkpoint.origin.as_str(), checkpoint.head.size),
            ("example.com/behind-the-sofa", 20_852_163)
        );
        assert_eq!(checkpoint.to_string(), EXAMPLE);
        let extended = format!("{EXAMPLE}extension\n");
        assert_eq!(Checkpoint::parse(&extended), Ok(checkpoint));
    }

    #[test]
    fn other_text_is_rejected() {
        for text in [
            "",
            "example.com/log\n",
            EXAMPLE.trim_end(),
            &EXAMPLE.replace("20852163", "020852163"),
            &EXAMPLE.replace("20852163", "-1"),
            &EXAMPLE.replace("CsUY", ""),
            &EXAMPLE.replace("example.com/behind-the-sofa", ""),
            &format!("{EXAMPLE}\n"),
        ] {
            assert!(Checkpoint::parse(text).is_err(), "{text:?}");
        }
    }
}
