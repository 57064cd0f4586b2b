//! Operation 2: list the attestations of a flow.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::model::{Attestation, FlowName, Pagination};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, ErrorResponses, Problem};
use crate::service::http::response::check_size;
use crate::service::site::Site;

/// The response of operation 2.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Attestations {
    data: Vec<Attestation>,
    pagination: Pagination,
}

/// List the attestations of a flow, newest first.
#[utoipa::path(
    get,
    path = "/attestations/{org}/{flow_name}",
    tag = "attestations",
    params(
        ("org" = String, Path, description = "Organization"),
        ("flow_name" = inline(FlowName), Path, description = "Flow"),
        ("from_timestamp" = Option<i64>, Query, description = "Received at or after this time, in seconds since 1970", minimum = 0),
        ("to_timestamp" = Option<i64>, Query, description = "Received at or before this time, in seconds since 1970", minimum = 0),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Attestations),
        (status = 404, description = "No such flow", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn list_attestations(
    State(site): State<Site>,
    Admitted { organization, rest: flow, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Attestations>, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let parameters = Parameters::read(&uri, &["from_timestamp", "to_timestamp", "page", "per_page"])?;
    let (page, span) = (parameters.page()?, parameters.span()?);
    let mut transaction = site.store.read().await?;
    let bytes = transaction.size_of_attestations(&organization, flow.as_str(), span, page).await?;
    check_size(bytes).map_err(|why| Problem::field("per_page", &why))?;
    let html_url =
        |trail: &str, attestation| site.links.attestation(&organization, flow.as_str(), trail, attestation);
    let listed = transaction.attestations(&organization, flow.as_str(), span, page, &html_url).await?;
    let (data, total) = listed.ok_or_else(|| Problem::not_found(format!("flow \"{flow}\" not found")))?;
    Ok(axum::Json(Attestations { data, pagination: page.pagination(total) }))
}
