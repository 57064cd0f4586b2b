//! Operations 6 and 8: get an approval, and list the approvals of an artifact. Extensions of the interface: list the approvals
//! of a flow, and get the commit of the latest approved artifact.

pub(crate) mod approve;

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::engine::approval::find_approval;
use crate::engine::not_found::require_flow;
use crate::http::parameters::Parameters;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Read};
use crate::site::Site;
use model::{Approval, CommitHash, EnvironmentName, Fingerprint, FlowName, SourceCommit};
use store::Tenant;

/// Get an approval. A negative number counts from the latest: -1 is the latest.
#[utoipa::path(
    get,
    path = "/approvals/{org}/{flow_name}/{approval_number}",
    tag = "approvals",
    params(("approval_number" = i64, Path, description = "Number of the approval in the flow, or -1 for the latest")),
    responses(
        (status = 200, description = "The approval", body = Approval),
        (status = 404, description = "No such flow or approval", body = ErrorBody),
    ),
)]
pub(crate) async fn get_approval(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (FlowName, String)>,
    uri: Uri,
) -> Result<axum::Json<Approval>, Problem> {
    let (flow, number) = rest;
    let expected =
        || Problem::field("approval_number", "expected an integer from 1, or -1 for the latest approval");
    let mut number: i64 = number.parse().ok().filter(|_| !number.starts_with('+')).ok_or_else(expected)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    if number < 0 {
        // -1 is place 0; the complement does not overflow.
        let latest = store::approvals::nth_latest(tenant, flow.as_str(), !number).await?;
        number = latest.unwrap_or(number);
    }
    let approval = find_approval(tenant, &flow, number).await?;
    Ok(axum::Json(with_artifacts(tenant, approval).await?))
}

/// The response of operation 6: each commit with the artifacts built from it.
pub(crate) async fn with_artifacts(
    tenant: &mut Tenant<'_>,
    mut approval: Approval,
) -> Result<Approval, Problem> {
    let hash = |commit| match commit {
        SourceCommit::Hash(CommitHash(hash)) | SourceCommit::Built { commit_sha: hash, .. } => hash,
    };
    let commits: Vec<String> = approval.src_commit_list.into_iter().map(hash).collect();
    let built = store::approvals::artifacts_built_from(tenant, &commits).await?;
    let with_artifacts = |commit_sha: String| SourceCommit::Built {
        artifact_fingerprints: built.get(&commit_sha).into_iter().flatten().copied().collect(),
        commit_sha,
    };
    approval.src_commit_list = commits.into_iter().map(with_artifacts).collect();
    Ok(approval)
}

/// List the approvals of an artifact in a flow.
#[utoipa::path(
    get,
    path = "/artifacts/{org}/{flow_name}/{fingerprint}/approvals",
    tag = "approvals",
    params(("fingerprint" = inline(Fingerprint), Path, description = "Approved artifact")),
    responses(
        (status = 200, description = "All approvals, lowest number first", body = Vec<Approval>),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn list_approvals(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (FlowName, Fingerprint)>,
    uri: Uri,
) -> Result<axum::Json<Vec<Approval>>, Problem> {
    let (flow, artifact) = rest;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    require_flow(tenant, &flow).await?;
    let approvals = store::approvals::list(tenant, flow.as_str(), artifact).await?;
    Ok(axum::Json(approvals))
}

/// List the approvals of a flow.
#[utoipa::path(
    get,
    path = "/approvals/{org}/{flow_name}",
    tag = "approvals",
    params(
        ("page" = Option<i64>, Query, minimum = 1, maximum = 4_294_967_295_i64),
        ("per_page" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "A page, latest first", body = Vec<Approval>),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn list_approvals_of_flow(
    State(site): State<Site>,
    Admitted { organization, rest: flow, .. }: Admitted<Read, FlowName>,
    uri: Uri,
) -> Result<axum::Json<Vec<Approval>>, Problem> {
    let page = Parameters::read(&uri, &["page", "per_page"])?.page()?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    require_flow(tenant, &flow).await?;
    let approvals = store::approvals::of_flow(tenant, flow.as_str(), page).await?;
    Ok(axum::Json(approvals))
}

/// The commit of the latest approved artifact, for clients that list the commits since then.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ApprovedCommit {
    /// `null` if no artifact is approved, or its commit is unknown.
    commit_sha: Option<String>,
}

/// Get the commit of the latest artifact that is approved for an environment.
#[utoipa::path(
    get,
    path = "/approvals/{org}/{flow_name}/artifact-commit/{env_name}",
    tag = "approvals",
    responses(
        (status = 200, description = "The commit", body = ApprovedCommit),
        (status = 404, description = "No such flow", body = ErrorBody),
    ),
)]
pub(crate) async fn approved_commit(
    State(site): State<Site>,
    Admitted { organization, rest, .. }: Admitted<Read, (FlowName, EnvironmentName)>,
    uri: Uri,
) -> Result<axum::Json<ApprovedCommit>, Problem> {
    let (flow, environment) = rest;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    require_flow(tenant, &flow).await?;
    let approved = store::approvals::latest_approved(tenant, flow.as_str(), Some(&environment)).await?;
    let commit_sha = match approved {
        Some(artifact) => {
            let sources = store::provenance::sources(tenant, artifact).await?;
            sources.listed.into_iter().find_map(|source| source.commit_sha)
        }
        None => None,
    };
    Ok(axum::Json(ApprovedCommit { commit_sha }))
}
