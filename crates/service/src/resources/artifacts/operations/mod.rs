//! List and get artifacts: extensions of the interface.

pub(crate) mod allow_list;
pub(crate) mod asserts;
pub(crate) mod digests;
pub(crate) mod image_index;
pub(crate) mod live;
pub(crate) mod report;

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::artifact_details::{
    ArtifactEvent, ArtifactHistory, FlowArtifact, KnownArtifacts, RunningIn, UNKNOWN_COMMIT,
};
use crate::engine::not_found;
use crate::http::hex_prefix::HexPrefix;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{Fingerprint, FlowName, RelatedDigests, RepositoryName, TrailName};
use store::Tenant;
use store::artifacts::PastRun;

/// An artifact in a flow, and where it runs and ran.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ArtifactDetails {
    #[serde(flatten)]
    artifact: FlowArtifact,
    #[serde(flatten)]
    digests: RelatedDigests,
    running: Vec<RunningIn>,
    /// Within the retention
    exited: Vec<PastRun>,
    /// Oldest first
    history: Vec<ArtifactEvent>,
}

/// List the artifacts of a flow, or those built from a repository, newest first.
#[utoipa::path(
    get,
    path = "/artifacts/{org}",
    tag = "artifacts",
    params(
        ("flow_name" = inline(Option<FlowName>), Query, description = "Flow; required without repo_name"),
        ("repo_name" = inline(Option<RepositoryName>), Query, description = "Repository with its owner; ignored with flow_name"),
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page", body = Vec<FlowArtifact>),
        (status = 404, description = "No such flow or repository", body = ErrorBody),
    ),
)]
pub(crate) async fn list_artifacts(
    State(site): State<Site>,
    Admitted { organization, .. }: Admitted<Read>,
    uri: Uri,
) -> Result<axum::Json<Vec<FlowArtifact>>, Problem> {
    let parameters = Parameters::read(&uri, &["flow_name", "repo_name", "page", "per_page"])?;
    let page = parameters.page()?;
    let flow: Option<FlowName> = parameters.parsed("flow_name")?;
    let repository: Option<RepositoryName> = parameters.parsed("repo_name")?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let artifacts = match (&flow, &repository) {
        (Some(flow), _) => {
            not_found::require_flow(tenant, flow).await?;
            store::artifacts::flows::of_flow(tenant, flow.as_str(), page).await?
        }
        (None, Some(name)) => {
            let repositories = store::artifacts::live::repositories(tenant, name.as_str()).await?;
            if repositories.is_empty() {
                let name = name.as_str();
                return Err(not_found::repository(tenant, name, None, "").await);
            }
            let ids: Vec<_> = repositories.iter().map(|repository| repository.id).collect();
            store::artifacts::flows::built_from(tenant, &ids, page).await?
        }
        (None, None) => return Err(Problem::field("flow_name", "expected flow_name or repo_name")),
    };
    let set = artifacts.iter().map(|(artifact, _)| *artifact).collect();
    let flow = flow.as_ref().map(FlowName::as_str);
    let known = KnownArtifacts::read(tenant, &set, flow).await?;
    drop(transaction);
    let listed = artifacts.into_iter().map(|(artifact, created_at)| {
        let flow = flow.or_else(|| known.main_flow(artifact)).unwrap_or_default();
        // `in_flow` has no time of an artifact without a flow.
        FlowArtifact { created_at, ..known.in_flow(&site, &organization, artifact, flow) }
    });
    Ok(axum::Json(listed.collect()))
}

/// Get an artifact of a flow by its fingerprint.
#[utoipa::path(
    get,
    path = "/artifacts/{org}/{flow_name}/fingerprint/{fingerprint}",
    tag = "artifacts",
    params(
        ("fingerprint" = inline(HexPrefix), Path, description = "The first hex digits of the fingerprint, or all"),
        ("trail" = inline(Option<TrailName>), Query, description = "Only if the artifact was attested or reported in this trail"),
    ),
    responses(
        (status = 200, description = "The artifact", body = ArtifactDetails),
        (status = 404, description = "No such flow, or the artifact is not in the flow or trail", body = ErrorBody),
    ),
)]
pub(crate) async fn get_artifact(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (String, String)>,
    uri: Uri,
) -> Result<axum::Json<ArtifactDetails>, Problem> {
    let (flow, prefix) = rest;
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let prefix: HexPrefix = Problem::parse("fingerprint", &prefix)?;
    let trail: Option<TrailName> = Parameters::read(&uri, &["trail"])?.parsed("trail")?;
    let (first, last) = Fingerprint::range(prefix.as_str()).ok_or_else(Problem::defect)?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let matching = store::artifacts::flows::two_of_flow(tenant, flow.as_str(), first, last).await?;
    if matching.len() > 1 {
        return Err(Problem::field("fingerprint", "several artifacts match: expected more digits"));
    }
    let artifacts = matching.into_iter().map(|(artifact, _)| artifact).collect();
    let what = format!("artifact \"{}\"", prefix.as_str());
    let found = details(&site, tenant, &flow, trail.as_ref(), artifacts, &what).await?;
    found.into_iter().next().map(axum::Json).ok_or_else(Problem::defect)
}

/// Get the artifacts of a flow that were built from a commit.
#[utoipa::path(
    get,
    path = "/artifacts/{org}/{flow_name}/commit_sha/{commit_sha}",
    tag = "artifacts",
    params(
        ("commit_sha" = inline(HexPrefix), Path, description = "The first hex digits of the commit, or all"),
        ("trail" = inline(Option<TrailName>), Query, description = "Only artifacts that were attested or reported in this trail"),
    ),
    responses(
        (status = 200, description = "The artifacts", body = Vec<ArtifactDetails>),
        (status = 404, description = "No such flow, or no artifact of this commit in the flow or trail", body = ErrorBody),
    ),
)]
pub(crate) async fn get_artifacts_of_commit(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (String, String)>,
    uri: Uri,
) -> Result<axum::Json<Vec<ArtifactDetails>>, Problem> {
    let (flow, prefix) = rest;
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let prefix: HexPrefix = Problem::parse("commit_sha", &prefix)?;
    let trail: Option<TrailName> = Parameters::read(&uri, &["trail"])?.parsed("trail")?;
    let commit = prefix.as_str();
    let mut transaction = site.store.read().await?;
    let built =
        store::search::artifacts_of_commit(&mut transaction.of(&organization), commit, Some(flow.as_str()))
            .await?;
    if let Some(most) = built.cut_at() {
        let expected =
            format!("more than {most} artifacts match: expected more digits, or get one by its fingerprint");
        return Err(Problem::field("commit_sha", &expected));
    }
    let artifacts = built.listed.into_iter().map(|(_, artifact)| artifact).collect();
    let what = format!("an artifact of commit \"{commit}\"");
    let found =
        details(&site, &mut transaction.of(&organization), &flow, trail.as_ref(), artifacts, &what).await?;
    Ok(axum::Json(found))
}

/// The artifacts of a flow; with a trail: those in it. Returns 404 if there are none.
async fn details(
    site: &Site,
    tenant: &mut Tenant<'_>,
    flow: &FlowName,
    trail: Option<&TrailName>,
    mut artifacts: BTreeSet<Fingerprint>,
    what: &str,
) -> Result<Vec<ArtifactDetails>, Problem> {
    not_found::require_flow(tenant, flow).await?;
    let mut place = format!("flow \"{flow}\"");
    if let Some(name) = trail {
        let Some(stored) = store::trails::writes::stored(tenant, flow.as_str(), name.as_str()).await? else {
            return Err(not_found::trail(tenant, flow, name).await?);
        };
        artifacts = store::artifacts::flows::in_trail(tenant, stored.id, &artifacts).await?;
        place = format!("trail \"{name}\" of {place}");
    }
    if artifacts.is_empty() {
        return Err(Problem::not_found(format!("{what} not found in {place}")));
    }
    let flow = flow.as_str();
    let known = KnownArtifacts::read(tenant, &artifacts, Some(flow)).await?;
    let mut found = Vec::with_capacity(artifacts.len());
    for artifact in artifacts {
        let mut in_flow = known.in_flow(site, tenant.name, artifact, flow);
        if in_flow.git_commit == UNKNOWN_COMMIT
            && let Some(hash) = store::attestations::lists::first_commit(tenant, artifact)
                .await?
                .and_then(|commit| commit.sha1)
        {
            in_flow.git_commit = hash;
        }
        let history = ArtifactHistory::read(tenant, artifact).await?;
        found.push(ArtifactDetails {
            digests: known.digests(artifact),
            running: history.running(site),
            history: history.events(Some(&in_flow)),
            exited: history.past_runs.listed,
            artifact: in_flow,
        });
    }
    Ok(found)
}
