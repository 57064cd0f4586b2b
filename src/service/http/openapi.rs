//! How the OpenAPI document describes the types whose rules lie in their parsing.
//!
//! Lengths are characters in a document and bytes of UTF-8 in the service: a name of other letters than
//! ASCII may be shorter than the document says.

use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, SchemaFormat, Type};
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::evidence::snapshot::reported::{ImageDigests, Name};
use crate::domain::model::{
    CommitHash, EnvironmentName, Fingerprint, FlowName, FreeForm, Provider, RepositoryName, ShortText, Text,
    Timestamp, TrailName, UrlText,
};

/// No control character.
const TEXT: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";

/// Neither slash nor control character, and no white space at either end.
const SEGMENT: &str = r"^[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/\\]([^\x00-\x1f\x7f-\x9f/\\]*[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/\\])?$";

/// Such segments, with a slash between them.
const REPOSITORY: &str = r"^[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/]([^\x00-\x1f\x7f-\x9f/]{0,253}[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/])?(/[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/]([^\x00-\x1f\x7f-\x9f/]{0,253}[^\x00-\x1f\x7f-\x9f \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/])?)*$";

/// No NUL.
const WITHOUT_NUL: &str = r"^[^\x00]*$";

/// The pattern that the interface gives under Limits.
const FLOW: &str = "^[a-zA-Z0-9][a-zA-Z0-9._~-]*$";

/// The pattern that the interface gives under Limits.
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

/// Image names and their digests.
fn digests() -> Object {
    ObjectBuilder::new()
        .property_names(Some(text(WITHOUT_NUL).min_length(Some(1)).build()))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(
            text(FINGERPRINT).build(),
        )))))
        .build()
}

/// `provider` of operation 4: nullable, so it may be empty.
pub(crate) struct NullableProvider;

fn provider() -> Object {
    let names = Provider::ALL.map(Provider::as_str);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names.into_iter().chain([""]))).build()
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
    NullableProvider => provider(),
}
