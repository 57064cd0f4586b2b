//! The SHA-256 digest that identifies an artifact.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::escape::Escaped;

/// A SHA-256 digest: 64 lowercase hex digits on the wire (interface, Limits), 32 bytes here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

#[derive(Debug, Clone, Default)]
pub struct FingerprintHasher(Sha256);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid fingerprint \"{}\": expected 64 lowercase hex digits", Escaped(.0))]
pub struct InvalidFingerprint(String);

impl Fingerprint {
    /// 32 zero bytes, which is the digest of no known content.
    pub const ZERO: Self = Self([0; 32]);

    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    #[must_use]
    pub fn from_content(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// Parses 64 hex digits in any case, because container runtimes write both. `None` for other text.
    #[must_use]
    pub fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The first and the last fingerprint that start with these hex digits; `None` for other text.
    #[must_use]
    pub fn range(digits: &str) -> Option<(Self, Self)> {
        let rest = 64_usize.checked_sub(digits.len())?;
        let fill = |digit: &str| Self::from_hex(&format!("{digits}{}", digit.repeat(rest)));
        fill("0").zip(fill("f"))
    }
}

impl FingerprintHasher {
    pub fn update(&mut self, chunk: &[u8]) {
        self.0.update(chunk);
    }

    #[must_use]
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = Cow::<str>::deserialize(deserializer)?;
        digits.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(input: &str) -> Result<Self, InvalidFingerprint> {
        let is_lower = !input.bytes().any(|b| b.is_ascii_uppercase());
        Self::from_hex(input).filter(|_| is_lower).ok_or_else(|| InvalidFingerprint(input.to_owned()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_hex(self, |digits| f.write_str(digits))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        with_hex(self, |digits| serializer.serialize_str(digits))
    }
}

/// Formats the 64 digits without allocating, because a report contains one for each image of each pod.
fn with_hex<T>(fingerprint: &Fingerprint, write: impl FnOnce(&str) -> T) -> T {
    let mut digits = [b'0'; 64];
    // Cannot fail: the buffer has twice the length, and hex digits are ASCII.
    let _ = hex::encode_to_slice(fingerprint.0, &mut digits);
    write(std::str::from_utf8(&digits).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: &str = "9c11e630879ee9aa3d5aac251ed3226dff41c9418fbba92c47299c80e8bcfdf9";

    #[test]
    fn prefix_becomes_a_range() {
        let (first, last) = Fingerprint::range("abcdef0").unwrap();
        assert_eq!(first.to_string(), format!("abcdef0{}", "0".repeat(57)));
        assert_eq!(last.to_string(), format!("abcdef0{}", "f".repeat(57)));
        let whole = H.parse().unwrap();
        assert_eq!(Fingerprint::range(H), Some((whole, whole)));
        assert_eq!(Fingerprint::range("x").or(Fingerprint::range(&"a".repeat(65))), None);
    }

    #[test]
    fn only_64_lowercase_hex_digits_are_a_fingerprint() {
        assert_eq!(H.parse::<Fingerprint>().unwrap().to_string(), H);
        let upper = H.to_uppercase();
        let prefixed = format!("sha256:{H}");
        let wide = H.replace('9', "９");
        for bad in ["", H.split_at(1).1, &upper, &prefixed, &wide, &format!("{H}0"), &H.replace('9', "g")] {
            let error = bad.parse::<Fingerprint>().unwrap_err().to_string();
            assert!(error.contains("64 lowercase hex digits"), "{error}");
        }
    }

    #[test]
    fn from_hex_accepts_upper_case() {
        assert_eq!(Fingerprint::from_hex(&H.to_uppercase()), H.parse().ok());
    }
}
