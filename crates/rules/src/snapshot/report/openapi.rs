//! Schemas of the parts of a report, for the service's OpenAPI document.

use model::described;
use model::openapi::{FINGERPRINT, VISIBLE, WITHOUT_NUL, short, text};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema};

use super::{ImageDigests, Name};

described! {
    Name<'_> => short(VISIBLE, 255),
    ImageDigests<'_> => digests(),
}

fn digests() -> Object {
    ObjectBuilder::new()
        .property_names(Some(text(WITHOUT_NUL).min_length(Some(1)).build()))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(
            text(FINGERPRINT).build(),
        )))))
        .build()
}
