//! Strings and objects that a client is free in, but for what no database keeps.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Fingerprint;

/// How long a text or a free-form object may be, in bytes: a page of a list holds up to 500 of them.
const LONGEST: usize = 64 * 1024;

/// Any text of at most 64 KiB without a NUL, which PostgreSQL cannot store (PostgreSQL documentation,
/// "Character Types").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Text(String);

/// A [`Text`] of 1 to 255 bytes: a name that is looked up by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ShortText(String);

/// A [`Text`] that is an address, without the user and password that a pipeline may have in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct UrlText(String);

/// A free-form object, kept and given back as it came: numbers keep their digits and keys their order.
/// It takes at most 64 KiB and nests no deeper than readers go (128 levels, as `serde_json` does).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeForm(String);

/// A text that no database keeps, or that is not of the length that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidText {
    /// A NUL.
    #[error("it holds a NUL character; text without one was expected")]
    Nul,
    /// Too long.
    #[error("it takes {0} bytes; at most {LONGEST} were expected")]
    Long(usize),
    /// Not of the length of what is looked up by.
    #[error("it takes {0} bytes; 1 to 255 were expected")]
    Short(usize),
}

/// What is no free-form object.
#[derive(Debug, thiserror::Error)]
pub enum InvalidObject {
    /// Too long.
    #[error(transparent)]
    Length(#[from] InvalidText),
    /// No JSON object.
    #[error("it is no JSON object: {0}")]
    Json(#[from] serde_json::Error),
}

impl Text {
    /// A text.
    ///
    /// # Errors
    ///
    /// [`InvalidText`] with a NUL, and above 64 KiB.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidText> {
        let text = text.into();
        match text.len() {
            _ if text.contains('\0') => Err(InvalidText::Nul),
            0..=LONGEST => Ok(Self(text)),
            length => Err(InvalidText::Long(length)),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ShortText {
    /// A text of 1 to 255 bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidText`] with a NUL, and of another length.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidText> {
        let Text(text) = Text::new(text)?;
        match text.len() {
            1..=255 => Ok(Self(text)),
            length => Err(InvalidText::Short(length)),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl UrlText {
    /// An address, without the user and password that may be in it.
    ///
    /// # Errors
    ///
    /// [`InvalidText`] with a NUL, and above 64 KiB.
    pub fn new(url: impl Into<String>) -> Result<Self, InvalidText> {
        Text::new(url).map(|Text(url)| Self(without_credentials(&url)))
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is one that a browser opens: what comes back as a link must not be code.
    #[must_use]
    pub fn is_web(&self) -> bool {
        let scheme = self.0.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        scheme.is_some_and(|scheme| scheme == "https" || scheme == "http")
    }
}

impl From<Fingerprint> for ShortText {
    fn from(fingerprint: Fingerprint) -> Self {
        Self(fingerprint.to_string())
    }
}

/// Cuts `user:password@` out of a URL.
fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

impl<'de> Deserialize<'de> for UrlText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl FreeForm {
    /// An object, as JSON.
    ///
    /// # Errors
    ///
    /// [`InvalidObject`] for other JSON and what is none, and above 64 KiB.
    pub fn new(json: &str) -> Result<Self, InvalidObject> {
        if json.len() > LONGEST {
            return Err(InvalidText::Long(json.len()).into());
        }
        serde_json::from_str::<Map<String, Value>>(json)?;
        Ok(Self(json.to_owned()))
    }

    /// The object as JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for FreeForm {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

impl Serialize for FreeForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FreeForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw.get()).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ShortText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_credentials_and_says_whether_it_is_the_web_s() {
        for (sent, kept, is_web) in [
            ("https://u:p@git.example.com/x?y#z", "https://git.example.com/x?y#z", true),
            ("https://token@git.example.com", "https://git.example.com", true),
            ("HTTP://git.example.com/a@b", "HTTP://git.example.com/a@b", true),
            ("ssh://git@git.example.com/x", "ssh://git.example.com/x", false),
            ("git@github.com:acme/cart.git", "git@github.com:acme/cart.git", false),
            ("javascript:alert(1)//https://x", "javascript:alert(1)//https://x", false),
            ("", "", false),
        ] {
            let url: UrlText = serde_json::from_value(sent.into()).unwrap();
            assert_eq!((url.as_str(), url.is_web()), (kept, is_web));
        }
    }

    #[test]
    fn a_free_form_object_comes_back_as_it_came() {
        let text = r#"{"b": 123456789012345678901234567890, "a":1.10,  "deep": [{"er": null}]}"#;
        let read: FreeForm = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(serde_json::to_string(&FreeForm::default()).unwrap(), "{}");
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for bad in ["[]", "1", "null", "\"{}\"", &deep] {
            assert!(serde_json::from_str::<FreeForm>(bad).is_err(), "{bad}");
        }
    }
}
