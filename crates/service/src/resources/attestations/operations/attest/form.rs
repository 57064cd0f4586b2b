//! The form of an attestation, for the OpenAPI document.

use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use model::{
    BundleFields, CustomFields, GenericFields, JiraFields, JunitFields, PullRequestFields, SentAttestation,
    SnykFields, SonarFields, SystemFields,
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
            .item(SentAttestation::<BundleFields>::schema())
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
    fn schemas(schemas: &mut Schemas) {
        add::<JunitFields>(schemas);
        add::<GenericFields>(schemas);
        add::<BundleFields>(schemas);
        add::<CustomFields>(schemas);
        add::<SystemFields>(schemas);
        add::<SnykFields>(schemas);
        add::<JiraFields>(schemas);
        add::<SonarFields>(schemas);
        add::<PullRequestFields>(schemas);
    }
}

type Schemas = Vec<(String, RefOr<Schema>)>;

/// Adds the fields of a type, and what they refer to. The derived function does not add a parameter of a type.
fn add<T: ToSchema>(schemas: &mut Schemas) {
    SentAttestation::<T>::schemas(schemas);
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
