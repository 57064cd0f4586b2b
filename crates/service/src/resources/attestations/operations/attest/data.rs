//! Reads `data_json`: the fields of all attestations, those of the type, and fields of newer clients.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::http::json;
use crate::http::problem::Problem;
use model::{AttestationFields, JunitResult, UnknownFields, unknown_fields};
use rules::attestation_type::AttestationType;

/// The name of the JSON part.
pub(crate) const DATA: &str = "data_json";

pub(crate) struct AttestationData {
    pub(crate) fields: AttestationFields,
    /// The type as templates name it.
    pub(crate) kind: String,
    /// `None` if its type has no verdict.
    pub(crate) passes: Option<bool>,
    pub(crate) results: Vec<JunitResult>,
    /// A JSON object of the members that have no column of their own, as they were sent.
    pub(crate) other: String,
    /// Paths of the fields that this version does not know.
    pub(crate) unknown: Vec<String>,
}

impl AttestationData {
    pub(crate) fn read<T: AttestationType>(bytes: &[u8]) -> Result<Self, Problem> {
        let members: Members<'_> = json::read(DATA, bytes)?;
        let fields: AttestationFields =
            json::read(DATA, members.select(|name| AttestationFields::NAMES.contains(&name)).as_bytes())?;
        let is_own = |name: &str| T::NAMES.contains(&name);
        let own: T = json::read(DATA, members.select(is_own).as_bytes())?;
        let is_unknown = |name: &str| !AttestationFields::NAMES.contains(&name) && !is_own(name);
        let other = members.select(|name| is_unknown(name) || (is_own(name) && !T::HAS_COLUMNS));
        // The values are stored unparsed: a reader must be able to parse them.
        json::read::<Readable>(DATA, other.as_bytes())?;
        let (commit, repository) = (fields.git_commit_info.as_ref(), fields.repo_info.as_ref());
        let nested = unknown_fields(&UnknownFields::default(), commit, repository);
        let top =
            members.0.iter().map(|(name, _)| &**name).filter(|name| is_unknown(name)).map(str::to_owned);
        let (kind, passes, results) = (own.name(), own.verdict(), own.into_results());
        let of_results = results.iter().flat_map(|result| result.unknown.names());
        let of_results = of_results.map(|name| format!("junit_results[].{name}"));
        let unknown = top.chain(nested).chain(of_results).collect();
        Ok(Self { fields, kind, passes, results, other, unknown })
    }
}

/// The members of an object, unparsed.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl Members<'_> {
    /// An object of some members.
    fn select(&self, is_selected: impl Fn(&str) -> bool) -> String {
        let mut object = "{".to_owned();
        for (name, value) in self.0.iter().filter(|(name, _)| is_selected(name)) {
            let comma = if object.len() > 1 { "," } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(object, "{comma}{}:{}", serde_json::Value::from(&**name), value.get());
        }
        object.push('}');
        object
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, _>()? {
                    if members.len() == MAX_MEMBERS {
                        return Err(Error::custom(format!("expected at most {MAX_MEMBERS} fields")));
                    }
                    if members.iter().any(|(known, _)| *known == name.0) {
                        return Err(Error::custom(format!("duplicate field `{}`", name.0)));
                    }
                    members.push((name.0, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

const MAX_MEMBERS: usize = 100;

/// A name, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Any value that `serde_json` can parse: strings are valid, and the nesting is limited. Stores nothing.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::{CustomFields, GenericFields, JunitFields};

    fn read<T: AttestationType>(text: &str) -> Result<AttestationData, String> {
        AttestationData::read::<T>(text.as_bytes()).map_err(|problem: Problem| problem.text())
    }

    #[test]
    fn unknown_fields_are_kept_as_they_were_sent_and_named() {
        let data = json!({
            "attestation_name": "unit", "later": {"b": 1, "a": [2]},
            "git_commit_info": {"branch": "", "signature": "x"},
            "repo_info": {"name": "acme/cart", "provider": "forge", "topic": null, "namespace_path": ["acme"]},
            "junit_results": [{"failures": 0, "errors": 0, "total": 1, "flaky": 1}],
        });
        let read = read::<JunitFields>(&data.to_string()).unwrap();
        assert_eq!(read.other, r#"{"later":{"a":[2],"b":1}}"#);
        assert_eq!(
            read.unknown,
            ["later", "git_commit_info.signature", "repo_info.topic", "junit_results[].flaky"]
        );
        assert_eq!(serde_json::to_value(&read.fields.repo_info).unwrap(), data["repo_info"]);
        assert_eq!(serde_json::to_value(&read.results).unwrap()[0]["flaky"], 1);
    }

    #[test]
    fn fields_of_the_type_are_kept_unless_they_have_columns() {
        let number = "123456789012345678901234567890";
        let custom =
            format!(r#"{{"attestation_name":"c","type_name":"cov","attestation_data":{{"n":{number}}}}}"#);
        let read_custom = read::<CustomFields>(&custom).unwrap();
        assert_eq!(
            read_custom.other,
            format!(r#"{{"type_name":"cov","attestation_data":{{"n":{number}}}}}"#)
        );
        assert!(read_custom.unknown.is_empty());
        let generic = read::<GenericFields>(r#"{"attestation_name":"g","is_compliant":true}"#).unwrap();
        assert_eq!((generic.other.as_str(), generic.unknown.len()), ("{}", 0));
    }

    #[test]
    fn errors_name_the_field() {
        let deep = format!(
            r#"{{"attestation_name":"u","is_compliant":true,"x":{}{}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        let many: Vec<String> = (0..101).map(|n| format!(r#""f{n}":1"#)).collect();
        for (text, expected) in [
            (r#"{"is_compliant":true}"#, "missing field `attestation_name`"),
            (r#"{"attestation_name":"u"}"#, "missing field `is_compliant`"),
            (r#"{"attestation_name":"u","is_compliant":1}"#, "invalid value of \"is_compliant\""),
            (
                r#"{"attestation_name":"u","is_compliant":true,"git_commit_info":{"sha1":"x"}}"#,
                "git_commit_info.sha1",
            ),
            (r#"{"attestation_name":"u","is_compliant":true,"a":1,"a":2}"#, "duplicate field `a`"),
            (r#"{"attestation_name":"u","is_compliant":true,"x":"\ud800"}"#, "data_json"),
            (&deep, "recursion limit"),
            (&format!("{{{}}}", many.join(",")), "at most 100 fields"),
            ("[]", "expected an object"),
        ] {
            let Err(error) = read::<GenericFields>(text) else { panic!("{text} is accepted") };
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
