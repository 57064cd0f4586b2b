//! The form of an attestation, for the OpenAPI document.

use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::model::{
    CustomFields, GenericFields, JiraFields, JunitFields, PullRequestFields, SentAttestation, SnykFields,
    SonarFields, SystemFields,
};

#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the form in the OpenAPI document")]
pub(crate) struct AttestationForm {
    /// The attestation, a JSON object with the fields of its type
    data_json: AttestationOfType,
    /// A file to store with the attestation
    #[schema(value_type = Option<String>, format = Binary)]
    attachment_file: Option<Vec<u8>>,
}

/// The fields of one of the types. Not `oneOf`: an attestation may have the fields of several.
struct AttestationOfType;

impl PartialSchema for AttestationOfType {
    fn schema() -> RefOr<Schema> {
        AnyOfBuilder::new()
            .item(SentAttestation::<JunitFields>::schema())
            .item(SentAttestation::<GenericFields>::schema())
            .item(SentAttestation::<CustomFields>::schema())
            .item(SentAttestation::<SystemFields>::schema())
            .item(SentAttestation::<SnykFields>::schema())
            .item(SentAttestation::<JiraFields>::schema())
            .item(SentAttestation::<SonarFields>::schema())
            .item(SentAttestation::<PullRequestFields>::schema())
            .into()
    }
}

impl ToSchema for AttestationOfType {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        SentAttestation::<JunitFields>::schemas(schemas);
        SentAttestation::<GenericFields>::schemas(schemas);
        SentAttestation::<CustomFields>::schemas(schemas);
        SentAttestation::<SystemFields>::schemas(schemas);
        SentAttestation::<SnykFields>::schemas(schemas);
        SentAttestation::<JiraFields>::schemas(schemas);
        SentAttestation::<SonarFields>::schemas(schemas);
        SentAttestation::<PullRequestFields>::schemas(schemas);
    }
}
