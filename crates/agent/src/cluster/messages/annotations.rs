//! The annotations of a pod, of which one is read. The others can be large, and are skipped without allocation.

use std::fmt;

use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, decode_varint, skip_field};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::live::pod::{EXCLUDE, EXCLUDE_VALUE};

/// `metadata.annotations`. In protobuf, each entry is an occurrence of the field; prost merges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Annotations {
    /// Whether the last key was [`EXCLUDE`].
    is_key: bool,
    pub(super) excludes: bool,
}

impl prost::Message for Annotations {
    fn encode_raw(&self, _: &mut impl BufMut) {}

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        match (tag, wire_type) {
            (1, WireType::LengthDelimited) => self.is_key = is_text(EXCLUDE, buf)?,
            (2, WireType::LengthDelimited) => {
                let is_value = is_text(EXCLUDE_VALUE, buf)?;
                self.excludes |= std::mem::take(&mut self.is_key) && is_value;
            }
            _ => skip_field(wire_type, tag, buf, context)?,
        }
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        0
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Reads a string, and compares it.
fn is_text(expected: &str, buf: &mut impl Buf) -> Result<bool, prost::DecodeError> {
    let length = decode_varint(buf)?;
    let Some(length) = usize::try_from(length).ok().filter(|length| *length <= buf.remaining()) else {
        // prost has no constructor of its errors: this one is that of a truncated message.
        return decode_varint(&mut &[][..]).map(|_| false);
    };
    if length == expected.len() {
        return Ok(*buf.copy_to_bytes(length) == *expected.as_bytes());
    }
    buf.advance(length);
    Ok(false)
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Annotations, A::Error> {
                let mut annotations = Annotations::default();
                while let Some(key) = entries.next_key::<String>()? {
                    if key == EXCLUDE {
                        let value = entries.next_value::<serde_json::Value>()?;
                        annotations.excludes = value == EXCLUDE_VALUE;
                    } else {
                        entries.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(annotations)
            }
        }

        from.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use prost::Message;

    use super::*;

    /// The same field with all of its entries.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Whole {
        #[prost(map = "string, string", tag = "12")]
        annotations: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Reduced {
        #[prost(message, optional, tag = "12")]
        annotations: Option<Annotations>,
    }

    fn excludes(bytes: &[u8]) -> bool {
        Reduced::decode(bytes).unwrap().annotations.is_some_and(|annotations| annotations.excludes)
    }

    #[test]
    fn only_the_exact_annotation_excludes_in_both_encodings() {
        let padding = "x".repeat(300_000);
        for (key, value, expected) in [
            (EXCLUDE, "true", true),
            (EXCLUDE, "True", false),
            (EXCLUDE, "yes!", false),
            (EXCLUDE, "", false),
            ("supercargo.dev/excludf", "true", false),
            ("", "true", false),
        ] {
            let entries = [(key, value), ("other", "true"), ("padding", padding.as_str())];
            let annotations: HashMap<_, _> =
                entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            let json = serde_json::to_string(&annotations).unwrap();
            let bytes = Whole { annotations }.encode_to_vec();
            assert_eq!(excludes(&bytes), expected, "{key}: {value}");
            assert_eq!(serde_json::from_str::<Annotations>(&json).unwrap().excludes, expected);
        }
        assert!(
            !serde_json::from_str::<Annotations>(r#"{"supercargo.dev/exclude": true}"#).unwrap().excludes
        );
    }

    #[test]
    fn truncated_annotation_is_an_error() {
        let whole = Whole { annotations: [(EXCLUDE.to_owned(), "true".to_owned())].into() }.encode_to_vec();
        assert!(excludes(&whole));
        for end in 1..whole.len() {
            assert!(Reduced::decode(&whole[..end]).is_err(), "{end}");
        }
        // The entry is whole, but its key is longer than it.
        assert!(Reduced::decode(&[0x62, 2, 0x0a, 9][..]).is_err());
    }
}
