//! Schemas of types whose rules are in their parsers, for the service's OpenAPI document.
//!
//! The document counts characters and the service bytes of UTF-8, so the limit of a non-ASCII name is lower than documented.

use utoipa::openapi::schema::{KnownFormat, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Object, ObjectBuilder};

use crate::{
    AnyJson, CommitHash, EnvironmentName, EnvironmentSnapshot, Fingerprint, FlowName, FreeForm, PolicyName,
    Provider, RepositoryName, ShortText, SnapshotExpression, Text, Timestamp, TokenName, TrailName, UrlText,
};

/// Text without control characters.
pub const TEXT: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";

/// A character that a name may start and end with: no control character, white space or one of these.
macro_rules! outer {
    ($($without:literal),+) => {
        concat!(
            r"[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
            $($without),+,
            "]"
        )
    };
}

/// Any other character of a name.
macro_rules! inner {
    ($without:literal) => {
        concat!(r"[^\x00-\x1f\x7f-\x9f", $without, "]")
    };
}

/// A segment of a name, without these characters. Not a relative path: after a dot, it ends with another character, or has at
/// least three.
macro_rules! segment {
    ($without:literal) => {
        concat!(
            "(",
            outer!($without, "."),
            "(",
            inner!($without),
            "{0,253}",
            outer!($without),
            ")?|\\.(",
            inner!($without),
            "{0,253}",
            outer!($without, "."),
            "|",
            inner!($without),
            "{1,253}",
            outer!($without),
            "))"
        )
    };
}

const SEGMENT: &str = concat!("^", segment!(r"/\\"), "$");

/// Segments separated by slashes.
const REPOSITORY: &str = concat!("^", segment!("/"), "(/", segment!("/"), ")*$");

/// Text without NUL.
pub const WITHOUT_NUL: &str = r"^[^\x00]*$";

/// The pattern of the interface, section "Limits".
const FLOW: &str = "^[a-zA-Z0-9][a-zA-Z0-9._~-]*$";

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

/// The name excludes the characters that start an expression.
const ENVIRONMENT_SNAPSHOT: &str = concat!(
    r"^[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/\\#~@.]([^\x00-\x1f\x7f-\x9f/\\#~@]{0,60}[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/\\#~@])?",
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
    EnvironmentName => short(SEGMENT, 255),
    TrailName => short(SEGMENT, 255),
    PolicyName => short(SEGMENT, 255),
    TokenName => short(SEGMENT, 255),
    RepositoryName => short(REPOSITORY, 1000),
    FlowName => short(FLOW, 255),
    Fingerprint => text(FINGERPRINT).build(),
    CommitHash => text("^[a-f0-9]{40}$").build(),
    Text => text(WITHOUT_NUL).max_length(Some(65_536)).build(),
    UrlText => text(WITHOUT_NUL).max_length(Some(65_536)).build(),
    ShortText => short(WITHOUT_NUL, 255),
    FreeForm => ObjectBuilder::new().build(),
    Timestamp => seconds(),
    SnapshotExpression => text(SNAPSHOT).build(),
    EnvironmentSnapshot => text(ENVIRONMENT_SNAPSHOT).build(),
    Provider => text(r"^[^\x00-\x1f\x7f-\x9f]*$")
        .max_length(Some(255))
        .description(Some(format!("Such as {}", Provider::NAMES.join(", "))))
        .build(),
    AnyJson => ObjectBuilder::new().schema_type(SchemaType::AnyValue).build(),
}
