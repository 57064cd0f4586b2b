//! Download the file of an attestation: an extension of the interface.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use sqlx::types::Uuid;

use crate::service::access::{Admitted, Read};
use crate::service::http::attached_file::attached_file;
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, ErrorResponses, Problem};
use crate::service::site::Site;

/// Download the file that is attached to an attestation. `Repr-Digest` has its SHA-256, and `Content-Disposition` its name.
/// Not in the interface.
#[utoipa::path(
    get,
    path = "/attachments/{org}/{attestation_id}",
    tag = "attestations",
    params(
        ("org" = String, Path, description = "Organization"),
        ("attestation_id" = String, Path, format = "uuid", description = "Attestation"),
    ),
    responses(
        (status = 200, description = "The file", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 404, description = "No such attestation, or no file is attached to it", body = ErrorBody),
        (status = 410, description = "Retention removed the file", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn download_attachment(
    State(site): State<Site>,
    Admitted { organization, rest: id, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let id: Uuid = Problem::parse("attestation_id", &id)?;
    Parameters::read(&uri, &[])?;
    attached_file(&site, &organization, id).await
}
