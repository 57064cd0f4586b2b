//! Operation 2: list the attestations of a flow. Get attestations by name or identifier: extensions of the interface.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;
use sqlx::types::Uuid;

use crate::domain::model::{
    Attestation, Fingerprint, FlowName, FreeForm, JunitResult, Pagination, ShortText, Timestamp, TrailCommit,
    TrailName,
};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, Problem};
use crate::service::missing;
use crate::service::site::Site;
use crate::store::attestation_details::{AttestationDetails, AttestationName};
use crate::store::{Error, Transaction};

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
    Admitted { organization, rest: flow, .. }: Admitted<Read, String>,
    uri: Uri,
) -> Result<axum::Json<Attestations>, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let parameters = Parameters::read(&uri, &["from_timestamp", "to_timestamp", "page", "per_page"])?;
    let (page, span) = (parameters.page()?, parameters.span()?);
    let mut transaction = site.store.read().await?;
    let html_url =
        |trail: &str, attestation| site.links.attestation(&organization, flow.as_str(), trail, attestation);
    let data = transaction.attestations(&organization, flow.as_str(), span, page, &html_url).await?;
    let total = transaction.count_attestations(&organization, flow.as_str(), span).await?;
    if total == 0 {
        missing::require_flow(&mut transaction, &organization, &flow).await?;
    }
    Ok(axum::Json(Attestations { data, pagination: page.pagination(total) }))
}

/// An attestation with all of its fields.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct WholeAttestation {
    #[serde(flatten)]
    attestation: Attestation,
    flow_name: String,
    trail_name: String,
    /// The artifact that it is about; the first of several
    artifact_fingerprint: Option<Fingerprint>,
    /// The artifacts that it is about, at most 100
    artifact_fingerprints: Vec<Fingerprint>,
    /// Their names in the template
    target_artifacts: Vec<String>,
    git_commit_info: Option<TrailCommit>,
    /// The results of an attestation of type `junit`
    junit_results: Vec<JunitResult>,
    /// The fields of its type, and those that the service does not know
    other_fields: FreeForm,
    external_urls: FreeForm,
    attachment: Option<AttachedFile>,
    /// Whether a later one of the same name and targets superseded it
    is_superseded: bool,
    /// The earlier one that it superseded
    overridden_attestation_id: Option<String>,
}

/// A file that is attached to an attestation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AttachedFile {
    name: Option<String>,
    sha256: Fingerprint,
    /// In bytes
    size: i64,
    /// When the retention removed its content
    removed_at: Option<Timestamp>,
}

/// Attestations by identifier: one, or none.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AttestationsById {
    data: Vec<WholeAttestation>,
}

/// Get an attestation by its identifier. Not in the interface.
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
    let found = transaction.attestation(&organization, id).await?;
    let data = whole(&site, &mut transaction, &organization, found.into_iter().collect(), None).await?;
    Ok(axum::Json(AttestationsById { data }))
}

/// Get the attestations of a trail with this name, or `ARTIFACT.NAME` in its template; newest first. Not in the interface.
#[utoipa::path(
    get,
    path = "/attestations/{org}/{flow_name}/trail/{trail_name}/{type_or_name}",
    tag = "attestations",
    params(("type_or_name" = inline(ShortText), Path, description = "Name")),
    responses(
        (status = 200, description = "The latest attestations, at most 20", body = Vec<WholeAttestation>),
        (status = 404, description = "No such flow or trail", body = ErrorBody),
    ),
)]
pub(crate) async fn get_attestations_in_trail(
    State(site): State<Site>,
    Admitted { organization, rest: (flow, trail, name), .. }: Admitted<Read, (String, String, String)>,
    uri: Uri,
) -> Result<axum::Json<Vec<WholeAttestation>>, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let trail: TrailName = Problem::parse("trail_name", &trail)?;
    let name = parse_name(&name)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let Some(found) = transaction.stored_trail(&organization, flow.as_str(), trail.as_str()).await? else {
        return Err(missing::trail(&mut transaction, &organization, &flow, &trail).await?);
    };
    let name = AttestationName::from(name.as_str());
    let found = transaction.attestations_named_in_trail(&organization, found.id, name).await?;
    Ok(axum::Json(whole(&site, &mut transaction, &organization, found, None).await?))
}

/// Get the attestations of an artifact in a flow with this name; newest first. Not in the interface.
#[utoipa::path(
    get,
    path = "/attestations/{org}/{flow_name}/artifact/{fingerprint}/{attestation_name}",
    tag = "attestations",
    params(("attestation_name" = inline(ShortText), Path, description = "Name")),
    responses(
        (status = 200, description = "The latest attestations, at most 20", body = Vec<WholeAttestation>),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn get_attestations_of_artifact(
    State(site): State<Site>,
    Admitted { organization, rest: (flow, fingerprint, name), .. }: Admitted<Read, (String, String, String)>,
    uri: Uri,
) -> Result<axum::Json<Vec<WholeAttestation>>, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let artifact: Fingerprint = Problem::parse("fingerprint", &fingerprint)?;
    let name = parse_name(&name)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    missing::require_flow(&mut transaction, &organization, &flow).await?;
    let name = AttestationName::from(name.as_str());
    let found =
        transaction.attestations_named_of_artifact(&organization, flow.as_str(), artifact, name).await?;
    Ok(axum::Json(whole(&site, &mut transaction, &organization, found, Some(artifact)).await?))
}

fn parse_name(name: &str) -> Result<ShortText, Problem> {
    ShortText::new(name).map_err(|error| Problem::field("attestation_name", &error))
}

/// The attestations with their artifacts. `artifact` is the one that was asked for.
async fn whole(
    site: &Site,
    transaction: &mut Transaction,
    organization: &str,
    found: Vec<AttestationDetails>,
    artifact: Option<Fingerprint>,
) -> Result<Vec<WholeAttestation>, Error> {
    let mut all = Vec::with_capacity(found.len());
    for attested in found {
        let artifacts = transaction.artifacts_of_attestation(&organization, attested.id).await?.listed;
        let html_url = site.links.attestation(organization, &attested.flow, &attested.trail, attested.id);
        all.push(WholeAttestation::new(attested, html_url, artifact, artifacts)?);
    }
    Ok(all)
}

impl WholeAttestation {
    fn new(
        stored: AttestationDetails,
        html_url: String,
        artifact: Option<Fingerprint>,
        artifacts: Vec<Fingerprint>,
    ) -> Result<Self, Error> {
        let other_fields = serde_json::from_str(&stored.other_fields);
        Ok(Self {
            attestation: Attestation {
                attestation_id: stored.id.to_string(),
                attestation_name: stored.name,
                attestation_type: stored.kind,
                created_at: stored.created_at,
                description: stored.description,
                has_audit_package: stored.attachment.is_some(),
                html_url,
                is_compliant: stored.passes,
                origin_url: stored.origin_url,
                repo_info: stored.repo_info,
                reported_by: stored.reported_by,
                schema_version: stored.schema_version,
                user_data: stored.user_data,
            },
            flow_name: stored.flow,
            trail_name: stored.trail,
            artifact_fingerprint: artifact.or_else(|| artifacts.first().copied()),
            artifact_fingerprints: artifacts,
            target_artifacts: stored.targets,
            git_commit_info: stored.commit.map(TrailCommit::from),
            junit_results: stored.results,
            other_fields: other_fields.map_err(|_| Error::Unreadable("an attestation"))?,
            external_urls: stored.external_urls,
            attachment: stored.attachment.map(|file| AttachedFile {
                name: file.name,
                sha256: file.sha256,
                size: file.size,
                removed_at: file.removed_at,
            }),
            is_superseded: stored.is_superseded,
            overridden_attestation_id: stored.overrides.map(|id| id.to_string()),
        })
    }
}
