//! The first hex digits of a commit or fingerprint.

use std::str::FromStr;

const MIN_DIGITS: usize = 5;

/// 5 to 64 hex digits, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HexPrefix(String);

#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("expected {MIN_DIGITS} to 64 hex digits")]
pub(crate) struct InvalidHexPrefix;

impl FromStr for HexPrefix {
    type Err = InvalidHexPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidHexPrefix> {
        let is_valid = (MIN_DIGITS..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if is_valid { Ok(Self(text.to_ascii_lowercase())) } else { Err(InvalidHexPrefix) }
    }
}

impl HexPrefix {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
