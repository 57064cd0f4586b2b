//! Operation 2: list the attestations of a flow. Get attestations by name or identifier: extensions of the interface.

pub(crate) mod attachments;
pub(crate) mod attest;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use sqlx::types::Uuid;

use crate::engine::not_found;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{Fingerprint, FlowName, Pagination, ShortText, TrailName};
use store::attestations::Attestation;
use store::attestations::details::AttestationDetails;
use store::{Error, Tenant};

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
        ("from_timestamp" = Option<i64>, Query, description = "Received at or after this time, in seconds since 1970", minimum = 0),
        ("to_timestamp" = Option<i64>, Query, description = "Received at or before this time, in seconds since 1970", minimum = 0),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Attestations),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn list_attestations(
    State(site): State<Site>,
    Admitted { organization, rest: flow, .. }: Admitted<Read, FlowName>,
    uri: Uri,
) -> Result<axum::Json<Attestations>, Problem> {
    let parameters = Parameters::read(&uri, &["from_timestamp", "to_timestamp", "page", "per_page"])?;
    let (page, span) = (parameters.page()?, parameters.span()?);
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let html_url =
        |trail: &str, attestation| site.links.attestation(&organization, flow.as_str(), trail, attestation);
    let data = store::attestations::list(tenant, flow.as_str(), span, page, html_url).await?;
    let total = store::attestations::count(tenant, flow.as_str(), span).await?;
    if total == 0 {
        not_found::require_flow(tenant, &flow).await?;
    }
    Ok(axum::Json(Attestations { data, pagination: page.pagination(total) }))
}

/// Attestations by identifier: one, or none.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AttestationsById {
    data: Vec<AttestationDetails>,
}

/// Get an attestation by its identifier.
#[utoipa::path(
    get,
    path = "/attestations/{org}",
    tag = "attestations",
    params(("attestation_id" = String, Query, description = "Identifier", pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")),
    responses((status = 200, description = "The attestation; nothing if it does not exist", body = AttestationsById)),
)]
pub(crate) async fn get_attestation(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<AttestationsById>, Problem> {
    let parameters = Parameters::read(&uri, &["attestation_id"])?;
    let id: Option<Uuid> = parameters.parsed("attestation_id")?;
    let id = id.ok_or_else(|| Problem::field("attestation_id", "missing"))?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let found = store::attestations::details::get(tenant, id).await?;
    let data = complete(&site, tenant, found.into_iter().collect(), None).await?;
    Ok(axum::Json(AttestationsById { data }))
}

/// Get the attestations of a trail with this name, or `ARTIFACT.NAME` in its template; newest first.
#[utoipa::path(
    get,
    path = "/attestations/{org}/{flow_name}/trail/{trail_name}/{type_or_name}",
    tag = "attestations",
    params(("type_or_name" = inline(ShortText), Path, description = "Name")),
    responses(
        (status = 200, description = "The latest attestations, at most 20", body = Vec<AttestationDetails>),
        (status = 404, description = "No such flow or trail", body = ErrorBody),
    ),
)]
pub(crate) async fn get_attestations_in_trail(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (FlowName, TrailName, String)>,
    uri: Uri,
) -> Result<axum::Json<Vec<AttestationDetails>>, Problem> {
    let (flow, trail, name) = rest;
    let name = parse_name(&name)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let Some(found) = store::trails::writes::stored(tenant, flow.as_str(), trail.as_str()).await? else {
        return Err(not_found::trail(tenant, &flow, &trail).await?);
    };
    let found = store::attestations::details::named_in_trail(tenant, found.id, name.as_str()).await?;
    Ok(axum::Json(complete(&site, tenant, found, None).await?))
}

/// Get the attestations of an artifact in a flow with this name; newest first.
#[utoipa::path(
    get,
    path = "/attestations/{org}/{flow_name}/artifact/{fingerprint}/{attestation_name}",
    tag = "attestations",
    params(("attestation_name" = inline(ShortText), Path, description = "Name")),
    responses(
        (status = 200, description = "The latest attestations, at most 20", body = Vec<AttestationDetails>),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn get_attestations_of_artifact(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (FlowName, Fingerprint, String)>,
    uri: Uri,
) -> Result<axum::Json<Vec<AttestationDetails>>, Problem> {
    let (flow, artifact, name) = rest;
    let name = parse_name(&name)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    not_found::require_flow(tenant, &flow).await?;
    let (flow, name) = (flow.as_str(), name.as_str());
    let found = store::attestations::details::named_of_artifact(tenant, flow, artifact, name).await?;
    Ok(axum::Json(complete(&site, tenant, found, Some(artifact)).await?))
}

fn parse_name(name: &str) -> Result<ShortText, Problem> {
    ShortText::new(name).map_err(|error| Problem::field("attestation_name", &error))
}

/// Adds the artifacts and the pages of attestations. `artifact` is the one that was asked for.
async fn complete(
    site: &Site,
    tenant: &mut Tenant<'_>,
    mut found: Vec<AttestationDetails>,
    artifact: Option<Fingerprint>,
) -> Result<Vec<AttestationDetails>, Error> {
    for attested in &mut found {
        let id = attested.attestation.attestation_id.0;
        let artifacts = store::attestations::details::artifacts(tenant, id).await?.listed;
        attested.artifact_fingerprint = artifact.or_else(|| artifacts.first().copied());
        attested.artifact_fingerprints = artifacts;
        attested.attestation.html_url =
            site.links.attestation(tenant.name, &attested.flow_name, &attested.trail_name, id);
    }
    Ok(found)
}
