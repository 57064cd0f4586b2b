//! The file that is attached to an attestation, as a response of the operation and of the pages.

use axum::http::HeaderName;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sqlx::types::Uuid;
use url::form_urlencoded::byte_serialize;

use super::problem::Problem;
use crate::service::site::Site;

/// Reads the file. The reporter chose its content, so no browser may render it.
pub(crate) async fn attached_file(site: &Site, organization: &str, id: Uuid) -> Result<Response, Problem> {
    let mut transaction = site.store.read().await?;
    let attestation = transaction.attestation(organization, id).await?;
    let attestation =
        attestation.ok_or_else(|| Problem::not_found(format!("attestation \"{id}\" not found")))?;
    let Some(file) = attestation.attachment else {
        return Err(Problem::not_found(format!("no file is attached to the attestation \"{id}\"")));
    };
    let content = transaction.attachment(organization, id).await?;
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
