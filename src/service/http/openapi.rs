//! Parts of the OpenAPI document that operations share, and schemas of types whose rules are in their parsers.
//!
//! The document counts characters and the service bytes of UTF-8, so the limit of a non-ASCII name is lower than documented.

use super::hex_prefix::HexPrefix;
use super::problem::{BodyErrorResponses, ErrorResponses};
use super::snapshot_interval::{EventsLimit, Interval};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, SchemaFormat, SchemaType, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Object, ObjectBuilder, OpenApi, RefOr, Required, Schema};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use crate::domain::evidence::snapshot::report::{ImageDigests, Name};
use crate::domain::model::{
    AnyJson, CommitHash, EnvironmentName, EnvironmentSnapshot, Fingerprint, FlowName, FreeForm, PolicyName,
    Provider, RepositoryName, ShortText, SnapshotExpression, Text, Timestamp, TokenName, TrailName, UrlText,
};

/// Adds to all operations what they have in common: their error responses, the token, and the parameters of their paths
/// that they do not describe themselves.
pub(crate) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in methods.into_iter().flatten() {
            add_path_parameters(operation, path);
            let responses = &mut operation.responses.responses;
            responses.append(&mut ErrorResponses::responses());
            if operation.request_body.is_some() {
                responses.append(&mut BodyErrorResponses::responses());
            }
            operation.security = Some(vec![SecurityRequirement::new("token", [""; 0])]);
        }
    }
}

/// Puts the parameters of the path first, in its order.
fn add_path_parameters(operation: &mut Operation, path: &str) {
    let mut described = operation.parameters.take().unwrap_or_default();
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<_> = names
        .filter_map(|name| {
            let is_it = |known: &RefOr<Parameter>| matches!(known, RefOr::T(known) if known.name == name);
            match described.iter().position(is_it) {
                Some(place) => Some(described.remove(place)),
                None => path_parameter(name).map(RefOr::T),
            }
        })
        .collect();
    parameters.append(&mut described);
    operation.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
}

fn path_parameter(name: &str) -> Option<Parameter> {
    let (schema, description) = match name {
        "org" => (String::schema(), "Organization"),
        "env_name" => (EnvironmentName::schema(), "Environment"),
        "flow_name" => (FlowName::schema(), "Flow"),
        "trail_name" => (TrailName::schema(), "Trail"),
        "fingerprint" => (Fingerprint::schema(), "Artifact"),
        _ => return None,
    };
    let parameter =
        ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    Some(parameter.description(Some(description)).schema(Some(schema)).build())
}

/// Text without control characters.
const TEXT: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";

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
const WITHOUT_NUL: &str = r"^[^\x00]*$";

/// The pattern of the interface, section "Limits".
const FLOW: &str = "^[a-zA-Z0-9][a-zA-Z0-9._~-]*$";

/// The pattern of the interface, section "Limits".
const FINGERPRINT: &str = "^[a-f0-9]{64}$";

fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn short(pattern: &str, longest: usize) -> Object {
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

/// A snapshot, as `domain::model::SnapshotExpression` parses it.
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
const INTERVAL: &str = r"^((([nN][oO][wW])|[1-9][0-9]{0,14}|~[0-9]{1,15})?(\.\.(([nN][oO][wW])|[1-9][0-9]{0,14}|~[0-9]{1,15})?)?)$";

/// A limit of a list of events: the number of a snapshot, or a point in time.
const EVENTS_LIMIT: &str = concat!("^([1-9][0-9]{0,14}|", time!(), ")$");

/// Digests by image name.
fn digests() -> Object {
    ObjectBuilder::new()
        .property_names(Some(text(WITHOUT_NUL).min_length(Some(1)).build()))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(
            text(FINGERPRINT).build(),
        )))))
        .build()
}

/// Values of tags by key, or null.
pub(crate) fn nullable_tags() -> Object {
    let text = short(WITHOUT_NUL, 255);
    let value = AdditionalProperties::RefOr(RefOr::T(Schema::Object(text.clone())));
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .property_names(Some(text))
        .additional_properties(Some(value))
        .build()
}

macro_rules! described {
    ($($type:ty => $schema:expr),* $(,)?) => {
        $(
            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    RefOr::T(Schema::Object($schema))
                }
            }

            impl ToSchema for $type {}
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
    Name<'_> => short(TEXT, 255),
    ImageDigests<'_> => digests(),
    SnapshotExpression => text(SNAPSHOT).build(),
    EnvironmentSnapshot => text(ENVIRONMENT_SNAPSHOT).build(),
    Interval => text(INTERVAL).build(),
    EventsLimit => text(EVENTS_LIMIT).build(),
    HexPrefix => text("^[a-fA-F0-9]{5,64}$").build(),
    Provider => text(r"^[^\x00-\x1f\x7f-\x9f]*$")
        .max_length(Some(255))
        .description(Some(format!("Such as {}", Provider::NAMES.join(", "))))
        .build(),
    AnyJson => ObjectBuilder::new().schema_type(SchemaType::AnyValue).build(),
}
