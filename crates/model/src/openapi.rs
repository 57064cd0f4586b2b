//! Schemas of types whose rules are in their parsers, for the service's OpenAPI document.
//!
//! The document counts characters and the service bytes of UTF-8, so the limit of a non-ASCII name is lower than documented.

use utoipa::openapi::schema::{KnownFormat, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Object, ObjectBuilder};

use crate::{
    AnyJson, ArtifactName, CommitHash, EnvironmentName, EnvironmentSnapshot, Fingerprint, FlowName, FreeForm,
    PolicyName, Provider, RepositoryName, ShortText, SnapshotExpression, Text, Timestamp, TokenName,
    TrailName, UrlText,
};

/// Visible characters beyond ASCII, without white space. White space, and characters beyond U+FFFF, are accepted, but not
/// described.
macro_rules! beyond_ascii {
    () => {
        concat!(
            r"\u00a1-\u00ac\u00ae-\u034e\u0350-\u05ff\u0606-\u061b\u061d-\u06dc\u06de-\u070e\u0710-\u088f\u0892-\u08e1",
            r"\u08e3-\u115e\u1161-\u167f\u1681-\u17b3\u17b6-\u180a\u1810-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\u2fff",
            r"\u3001-\u3163\u3165-\ufdff\ufe0e-\ufefe\uff00-\uff9f\uffa1-\uffef\ufffc-\uffff"
        )
    };
}

/// One of these characters, or a visible one beyond ASCII.
macro_rules! visible {
    ($ascii:literal) => {
        concat!("[", $ascii, beyond_ascii!(), "]")
    };
}

/// Text without control or invisible characters.
pub const VISIBLE: &str = concat!("^", visible!(r" -~"), "+$");

/// A segment of a name, of these ASCII characters: without space and dot, without space, and all. Not a relative path: after
/// a dot, it ends with another character, or has at least three.
macro_rules! segment {
    ($start:literal, $outer:literal, $inner:literal) => {
        concat!(
            "(",
            visible!($start),
            "(",
            visible!($inner),
            "{0,253}",
            visible!($outer),
            ")?|\\.(",
            visible!($inner),
            "{0,253}",
            visible!($start),
            "|",
            visible!($inner),
            "{1,253}",
            visible!($outer),
            "))"
        )
    };
}

const SEGMENT: &str = concat!("^", segment!(r"!-\-0-\[\]-~", r"!-.0-\[\]-~", r" -.0-\[\]-~"), "$");

macro_rules! repository_segment {
    () => {
        segment!(r"!-\-0-~", r"!-.0-~", r" -.0-~")
    };
}

/// Segments separated by slashes.
const REPOSITORY: &str = concat!("^", repository_segment!(), "(/", repository_segment!(), ")*$");

/// Text without NUL.
pub const WITHOUT_NUL: &str = r"^[^\x00]*$";

/// The pattern of the interface, section "Limits".
const NAME: &str = "^[a-zA-Z0-9][a-zA-Z0-9._~-]*$";

/// The pattern of the interface, section "Limits".
pub const FINGERPRINT: &str = "^[a-f0-9]{64}$";

#[must_use]
pub fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

/// A text of this pattern and at most this many characters.
#[must_use]
pub fn short(pattern: &str, longest: usize) -> Object {
    text(pattern).min_length(Some(1)).max_length(Some(longest)).build()
}

fn seconds() -> Object {
    #[expect(clippy::cast_precision_loss, reason = "it is exact below 2^53")]
    let last = Timestamp::LAST_SECOND as f64;
    ObjectBuilder::new()
        .schema_type(Type::Number)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
        .minimum(Some(0.0))
        .maximum(Some(last))
        .build()
}

/// A point in time. The days 29 to 31 are accepted, but not described.
macro_rules! time {
    () => {
        concat!(
            "([nN][oO][wW]|[0-9]{1,6}\\.?((second|minute|hour|day|week|month|year)s?|s|m|h|d|w|mo|y)(\\.ago)?",
            "|(197[1-9]|19[89][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
            "(T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,6})?)?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?)"
        )
    };
}

/// A snapshot, as `SnapshotExpression` parses it.
macro_rules! snapshot {
    () => {
        concat!("(#?[1-9][0-9]{0,14}|-[1-9][0-9]{0,14}|~[0-9]{1,15}|@", time!(), "|@\\{", time!(), "\\})")
    };
}

const SNAPSHOT: &str = concat!("^", snapshot!(), "$");

/// The name excludes the character that starts an expression.
const ENVIRONMENT_SNAPSHOT: &str = concat!(
    "^[a-zA-Z0-9][a-zA-Z0-9._-]{0,254}",
    "(#[1-9][0-9]{0,14}|~[0-9]{1,15}|@",
    time!(),
    "|@\\{",
    time!(),
    "\\})?$"
);

/// The snapshots of a list.
pub const INTERVAL: &str = r"^((([nN][oO][wW])|[1-9][0-9]{0,14}|~[0-9]{1,15})?(\.\.(([nN][oO][wW])|[1-9][0-9]{0,14}|~[0-9]{1,15})?)?)$";

/// A limit of a list of events: the number of a snapshot, or a point in time.
pub const EVENTS_LIMIT: &str = concat!("^([1-9][0-9]{0,14}|", time!(), ")$");

/// Describes types by an object schema.
#[macro_export]
macro_rules! described {
    ($($type:ty => $schema:expr),* $(,)?) => {
        $(
            impl utoipa::PartialSchema for $type {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    utoipa::openapi::RefOr::T(utoipa::openapi::Schema::Object($schema))
                }
            }

            impl utoipa::ToSchema for $type {}
        )*
    };
}

described! {
    EnvironmentName => short(NAME, 255),
    TrailName => short(NAME, 255),
    PolicyName => short(SEGMENT, 255),
    TokenName => short(SEGMENT, 255),
    RepositoryName => short(REPOSITORY, 1000),
    FlowName => short(NAME, 255),
    Fingerprint => text(FINGERPRINT).build(),
    CommitHash => text("^[a-f0-9]{40}$").build(),
    Text => text(WITHOUT_NUL).max_length(Some(65_536)).build(),
    UrlText => text(WITHOUT_NUL).max_length(Some(65_536)).build(),
    ShortText => short(VISIBLE, 255),
    ArtifactName => short(VISIBLE, 65_536),
    FreeForm => ObjectBuilder::new().build(),
    Timestamp => seconds(),
    SnapshotExpression => text(SNAPSHOT).build(),
    EnvironmentSnapshot => text(ENVIRONMENT_SNAPSHOT).build(),
    Provider => text(concat!("^", visible!(r" -~"), "*$"))
        .max_length(Some(255))
        .description(Some(format!("Such as {}", Provider::NAMES.join(", "))))
        .build(),
    AnyJson => ObjectBuilder::new().schema_type(SchemaType::AnyValue).build(),
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use crate::escape::needs_escape;

    /// Whether all names that the pattern describes are accepted, with each character at the start, inside and at the end.
    fn accepts_all<T: FromStr>(pattern: &str) -> bool {
        let pattern = regex::Regex::new(pattern).unwrap();
        let of =
            |c: char| [format!("{c}"), format!("{c}a"), format!("a{c}a"), format!("a{c}"), format!(".{c}")];
        let is_special = |c: &char| c.is_ascii() || c.is_whitespace() || needs_escape(*c);
        let tried = ('\0'..=char::MAX).filter(|c| is_special(c) || u32::from(*c).is_multiple_of(97));
        let mut described = tried.flat_map(of).filter(|name| pattern.is_match(name)).peekable();
        described.peek().is_some() && described.all(|name| name.parse::<T>().is_ok())
    }

    #[test]
    fn described_names_are_accepted() {
        assert!(accepts_all::<EnvironmentName>(NAME) && accepts_all::<TrailName>(NAME));
        assert!(accepts_all::<FlowName>(NAME) && accepts_all::<PolicyName>(SEGMENT));
        assert!(accepts_all::<TokenName>(SEGMENT) && accepts_all::<RepositoryName>(REPOSITORY));
        assert!(accepts_all::<ShortText>(VISIBLE) && accepts_all::<ArtifactName>(VISIBLE));
        assert!(accepts_all::<EnvironmentSnapshot>(ENVIRONMENT_SNAPSHOT));
        let segment = regex::Regex::new(SEGMENT).unwrap();
        for name in ["прод", "a b", "...", "文字", "❤\u{fe0f}"] {
            assert!(segment.is_match(name), "{name}");
        }
    }
}
