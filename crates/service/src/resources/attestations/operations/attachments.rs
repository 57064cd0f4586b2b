//! Download the file of an attestation: an extension of the interface.

use axum::extract::State;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sqlx::types::Uuid;
use url::form_urlencoded::byte_serialize;

use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;

/// Download the file that is attached to an attestation. `Repr-Digest` has its SHA-256, and `Content-Disposition` its name.
/// Not in Kosli's API.
#[utoipa::path(
    get,
    path = "/attachments/{org}/{attestation_id}",
    tag = "attestations",
    params(("attestation_id" = String, Path, format = "uuid", description = "Attestation")),
    responses(
        (status = 200, description = "The file", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "No such attestation, or no file is attached to it", body = ErrorBody),
        (status = 410, description = "Retention removed the file", body = ErrorBody),
    ),
)]
pub(crate) async fn download_attachment(
    State(site): State<Site>,
    Admitted { organization, rest: id, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let id: Uuid = Problem::parse("attestation_id", &id)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let attestation = store::attestations::details::get(tenant, id).await?;
    let attestation =
        attestation.ok_or_else(|| Problem::not_found(format!("attestation \"{id}\" not found")))?;
    let Some(file) = attestation.attachment else {
        return Err(Problem::not_found(format!("no file is attached to the attestation \"{id}\"")));
    };
    let content = store::attestations::details::attachment(tenant, id).await?;
    drop(transaction);
    let Some(content) = content else {
        let at = file.removed_at.map(|at| format!(" at {at}")).unwrap_or_default();
        return Err(Problem::gone(format!(
            "retention removed the file of the attestation \"{id}\"{at}; its SHA-256 was {}",
            file.sha256
        )));
    };
    // `byte_serialize` is for forms; RFC 8187 has no `+`, and does not allow `*`.
    let encoded = |name: String| byte_serialize(name.as_bytes()).collect::<String>();
    let name = file.name.map(|name| encoded(name).replace('+', "%20").replace('*', "%2A"));
    let name = name.map(|name| format!("; filename*=UTF-8''{name}")).unwrap_or_default();
    // The reporter chose the content, so no browser may render it.
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment{name}")),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        // RFC 9530.
        (
            HeaderName::from_static("repr-digest"),
            format!("sha-256=:{}:", STANDARD.encode(file.sha256.bytes())),
        ),
    ];
    Ok((headers, content).into_response())
}
