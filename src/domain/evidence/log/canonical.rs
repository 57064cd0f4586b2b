//! Canonical JSON (RFC 8785) of records: one text per value.
//!
//! Records have no floating-point numbers, and their keys are ASCII: the order of UTF-16 code units, which the RFC
//! requires, is then that of bytes.

use serde_json::Value;

/// The canonical JSON of a value: sorted keys, no white space.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(&Value::from(key.as_str()), text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        // serde_json escapes as the RFC requires: short escapes, then lowercase \u00xx.
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The expected text is that of the Python package `rfc8785`.
    #[test]
    fn canonical_json_is_that_of_another_implementation() {
        let value = json!({
            "zeta": null, "alpha": [1, -2, 9_007_199_254_740_991_i64, true, {"b": "", "a": []}],
            "text": "\u{8}\t\n\u{c}\r\u{1f}\u{7f}\"\\/é\u{2028}😀", "Upper": {}
        });
        let expected = "{\"Upper\":{},\"alpha\":[1,-2,9007199254740991,true,{\"a\":[],\"b\":\"\"}],\"text\":\"\\b\\t\\n\\f\\r\\u001f\u{7f}\\\"\\\\/é\u{2028}😀\",\"zeta\":null}";
        assert_eq!(canonical(&value), expected);
    }
}
