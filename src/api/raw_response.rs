//! Answers that keep what they do not know.
//!
//! A view names the fields that somebody looks at; all else that the service sent stands beside it, so
//! that JSON and YAML show every field, known here or not.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::domain::model::Timestamp;

/// An answer, or an item of one: the view of it, and all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept<T> {
    /// What is known of it.
    pub known: T,
    /// All that was sent.
    pub sent: Value,
}

impl<T> Kept<T> {
    /// What all that was sent takes in memory, in bytes, about.
    #[must_use]
    pub fn size(&self) -> usize {
        size(&self.sent)
    }
}

/// A node of a map, of which an object has one for each eleven fields, and at least one.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>());

fn size(value: &Value) -> usize {
    let held = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => {
            let texts: usize = fields.iter().map(|(name, value)| name.len() + size(value)).sum();
            texts + NODE * fields.len().div_ceil(11)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + held
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = Value::deserialize(deserializer)?;
        let known = serde_path_to_error::deserialize(&sent).map_err(D::Error::custom)?;
        Ok(Self { known, sent })
    }
}

/// A time that may be absent or `null`. One that no calendar holds is not known either: that it is odd
/// is no reason to show nothing of what it belongs to.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.and_then(Timestamp::from_seconds))
}

/// A whole number, which JSON may write with a fraction of zero.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    optional_whole(deserializer)?.ok_or_else(|| D::Error::custom("a whole number was expected"))
}

/// The same, or absent or `null`.
pub(super) fn optional_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let odd = || D::Error::custom(format!("{number} is no whole number from 0"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked to be whole")]
    let whole =
        |number: f64| (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(whole)).map(Some).ok_or_else(odd)
}

/// What may be `null` where it may be absent.
pub(super) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct View {
        #[serde(deserialize_with = "whole")]
        number: u64,
        #[serde(default, deserialize_with = "time")]
        at: Option<Timestamp>,
    }

    #[test]
    fn what_is_not_known_is_kept_and_numbers_may_have_a_fraction() {
        for (number, at, read) in [
            (json!(3), json!(1.5), Timestamp::from_seconds(1.5)),
            (json!(3.0), json!(2), Timestamp::from_seconds(2.0)),
            (json!(3), json!(null), None),
            (json!(3), json!(-62_135_596_800_i64), None),
        ] {
            let sent = json!({"number": number, "at": at, "new": {"a": [1]}});
            let kept: Kept<View> = serde_json::from_value(sent.clone()).unwrap();
            assert_eq!(kept, Kept { known: View { number: 3, at: read }, sent });
        }
    }

    #[test]
    fn values_take_more_than_their_text_and_objects_most() {
        let size = |value: Value| size(&value);
        let text = size(json!("x".repeat(1_000)));
        assert!((1_000..1_100).contains(&text), "{text}");
        let (numbers, objects) = (size(json!([0, 0, 0])), size(json!([{"a": 0}, {"a": 0}, {"a": 0}])));
        assert!(numbers >= 3 * size_of::<Value>() && objects > 3 * 500, "{numbers} {objects}");
        assert_eq!(size(json!({"a": {"b": ["c"]}})) + 2, size(json!({"aa": {"b": ["cc"]}})));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        let read =
            |value| serde_path_to_error::deserialize::<_, Vec<Kept<View>>>(value).unwrap_err().to_string();
        assert_eq!(read(json!([{"number": 1}, {}])), "[1]: missing field `number`");
        assert_eq!(read(json!([{"number": 1.5}])), "[0]: number: 1.5 is no whole number from 0");
        assert_eq!(read(json!([{"number": -1}])), "[0]: number: -1 is no whole number from 0");
    }
}
