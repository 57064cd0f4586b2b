//! Responses of a known type with their unparsed JSON, which is kept for output as JSON and YAML.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use model::Timestamp;

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed<T> {
    /// The parsed value.
    pub value: T,
    /// The unparsed JSON.
    pub raw: Value,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let value = serde_path_to_error::deserialize(&raw).map_err(D::Error::custom)?;
        Ok(Self { value, raw })
    }
}

/// An optional time. A time outside the supported range is ignored, so that the other fields are still shown.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.and_then(Timestamp::from_seconds))
}

/// An optional non-negative integer, also in the form `3.0`.
pub(super) fn optional_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let invalid = || D::Error::custom(format!("expected a non-negative integer, got {number}"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    let from_float =
        |number: f64| (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(from_float)).map(Some).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct View {
        #[serde(default, deserialize_with = "optional_integer")]
        number: Option<u64>,
        #[serde(default, deserialize_with = "time")]
        at: Option<Timestamp>,
    }

    #[test]
    fn unknown_fields_are_kept_and_integral_floats_are_integers() {
        for (number, at, read) in [
            (json!(3), json!(1.5), Timestamp::from_seconds(1.5)),
            (json!(3.0), json!(2), Timestamp::from_seconds(2.0)),
            (json!(3), json!(null), None),
            (json!(3), json!(-62_135_596_800_i64), None),
        ] {
            let raw = json!({"number": number, "at": at, "new": {"a": [1]}});
            let parsed: Parsed<View> = serde_json::from_value(raw.clone()).unwrap();
            assert_eq!(parsed, Parsed { value: View { number: Some(3), at: read }, raw });
        }
    }

    #[test]
    fn parse_error_names_the_path() {
        let read =
            |value| serde_path_to_error::deserialize::<_, Vec<Parsed<View>>>(value).unwrap_err().to_string();
        assert_eq!(read(json!([{"number": 1}, 2])), "[1]: invalid type: integer `2`, expected struct View");
        assert_eq!(read(json!([{"number": 1.5}])), "[0]: number: expected a non-negative integer, got 1.5");
        assert_eq!(read(json!([{"number": -1}])), "[0]: number: expected a non-negative integer, got -1");
    }
}
