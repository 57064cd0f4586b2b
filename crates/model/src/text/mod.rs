//! Free-form strings and objects of clients, limited to values that every database can store.

pub(crate) mod checked_text;
pub mod escape;
pub(crate) mod name;
pub(crate) mod nearest;
pub(crate) mod plural;
pub(crate) mod words;
pub mod yaml;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::escape::needs_escape;
use crate::{Fingerprint, checked_text};

/// Limit for a text or a free-form object, in bytes. A page of a list contains up to 500 of them.
const MAX_TEXT_BYTES: usize = 64 * 1024;

checked_text! {
    /// Any text of at most 64 KiB without a NUL, which PostgreSQL cannot store (PostgreSQL documentation,
    /// "Character Types").
    #[derive(Default)]
    Text, InvalidText, any_text
}

checked_text! {
    /// A [`Text`] of 1 to 255 bytes without control or invisible characters: a name that is used as a key.
    ShortText, InvalidText, short_text
}

checked_text! {
    /// The name of an artifact, such as an image or a file: a [`Text`] that is not empty, without control or invisible
    /// characters.
    ArtifactName, InvalidText, artifact_name
}

checked_text! {
    /// A URL. Credentials in it are removed.
    UrlText, InvalidText, |url| any_text(url).map(|url| without_credentials(&url))
}

/// A free-form JSON object that is stored and returned unchanged, with the digits of numbers and the order of
/// keys. Limited to 64 KiB and to `serde_json`'s 128 nested levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeForm(String);

/// As [`FreeForm`], for any JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct AnyJson(FreeForm);

/// Fields that this version does not know. They are stored and returned, so that a newer client loses nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnknownFields(BTreeMap<String, Value>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidText {
    #[error("expected text without a NUL character")]
    Nul,
    #[error("expected at most {MAX_TEXT_BYTES} bytes, got {0}")]
    Long(usize),
    #[error("expected text without control or invisible characters")]
    Invisible,
    #[error("expected a name, got an empty text")]
    Empty,
    /// The length of a [`ShortText`] is invalid.
    #[error("expected 1 to 255 bytes, got {0}")]
    Short(usize),
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidObject {
    #[error(transparent)]
    Length(#[from] InvalidText),
    #[error("expected a JSON object: {0}")]
    Json(#[from] serde_json::Error),
}

impl UnknownFields {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// For fields that a client may send as `null`.
///
/// # Errors
///
/// Those of the value.
pub fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

fn any_text(text: String) -> Result<String, InvalidText> {
    match text.len() {
        _ if text.contains('\0') => Err(InvalidText::Nul),
        0..=MAX_TEXT_BYTES => Ok(text),
        length => Err(InvalidText::Long(length)),
    }
}

fn short_text(text: String) -> Result<String, InvalidText> {
    let text = any_text(text)?;
    match text.len() {
        1..=255 => visible(text),
        length => Err(InvalidText::Short(length)),
    }
}

fn artifact_name(name: String) -> Result<String, InvalidText> {
    if name.is_empty() { Err(InvalidText::Empty) } else { any_text(name).and_then(visible) }
}

fn visible(text: String) -> Result<String, InvalidText> {
    if text.contains(needs_escape) { Err(InvalidText::Invisible) } else { Ok(text) }
}

impl UrlText {
    /// Whether the scheme is http or https. Other schemes (`javascript:`) must not become links.
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

/// Removes `user:password@` from a URL.
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

fn check_json<T: DeserializeOwned>(json: &str) -> Result<String, InvalidObject> {
    if json.len() > MAX_TEXT_BYTES {
        return Err(InvalidText::Long(json.len()).into());
    }
    serde_json::from_str::<T>(json)?;
    Ok(json.to_owned())
}

impl FreeForm {
    /// Checks a JSON object.
    ///
    /// # Errors
    ///
    /// [`InvalidObject`] for invalid or other JSON, or more than 64 KiB.
    pub fn new(json: &str) -> Result<Self, InvalidObject> {
        check_json::<Map<String, Value>>(json).map(Self)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AnyJson {
    /// Checks a JSON value.
    ///
    /// # Errors
    ///
    /// [`InvalidObject`] for invalid JSON, or more than 64 KiB.
    pub fn new(json: &str) -> Result<Self, InvalidObject> {
        check_json::<Value>(json).map(|json| Self(FreeForm(json)))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<FreeForm> for AnyJson {
    fn from(object: FreeForm) -> Self {
        Self(object)
    }
}

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw.get()).map_err(serde::de::Error::custom)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_removed_from_urls_and_only_http_is_web() {
        for (sent, stored, is_web) in [
            ("https://u:p@git.example.com/x?y#z", "https://git.example.com/x?y#z", true),
            ("https://token@git.example.com", "https://git.example.com", true),
            ("HTTP://git.example.com/a@b", "HTTP://git.example.com/a@b", true),
            ("ssh://git@git.example.com/x", "ssh://git.example.com/x", false),
            ("git@github.com:acme/cart.git", "git@github.com:acme/cart.git", false),
            ("javascript:alert(1)//https://x", "javascript:alert(1)//https://x", false),
            ("", "", false),
        ] {
            let url: UrlText = serde_json::from_value(sent.into()).unwrap();
            assert_eq!((url.as_str(), url.is_web()), (stored, is_web));
        }
    }

    #[test]
    fn name_has_no_control_or_invisible_characters() {
        for bad in ["a\nb", "unit\u{202e}", "un\u{200b}it", "\u{feff}unit", "\u{e0041}"] {
            assert_eq!(ShortText::new(bad), Err(InvalidText::Invisible), "{bad:?}");
            assert_eq!(ArtifactName::new(bad), Err(InvalidText::Invisible), "{bad:?}");
            assert!(Text::new(bad).is_ok(), "{bad:?}");
        }
        assert_eq!(ShortText::new(""), Err(InvalidText::Short(0)));
        assert_eq!(ShortText::new("a".repeat(256)), Err(InvalidText::Short(256)));
        assert_eq!(ShortText::new("Einheiten-Tests \u{2764}").unwrap().as_str(), "Einheiten-Tests \u{2764}");
        assert_eq!(ArtifactName::new(""), Err(InvalidText::Empty));
        assert!(ArtifactName::new("r/".repeat(200)).is_ok());
    }

    #[test]
    fn free_form_object_is_serialized_unchanged() {
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
