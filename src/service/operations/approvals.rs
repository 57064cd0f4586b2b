//! Operations 6 and 8: get an approval, and list the approvals of an artifact.

use axum::extract::State;
use axum::http::Uri;
use serde::Serialize;

use crate::domain::model::{Approval, CommitHash, Fingerprint, FlowName, SourceCommit};
use crate::service::access::{Admitted, Read};
use crate::service::http::parameters::Parameters;
use crate::service::http::problem::{ErrorBody, ErrorResponses, Problem};
use crate::service::site::Site;
use crate::store::approvals as stored;

/// The response of operation 8.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Approvals(Vec<Approval<CommitHash>>);

/// Get an approval.
#[utoipa::path(
    get,
    path = "/approvals/{org}/{flow_name}/{approval_number}",
    tag = "approvals",
    params(
        ("org" = String, Path, description = "Organization"),
        ("flow_name" = inline(FlowName), Path, description = "Flow"),
        ("approval_number" = i64, Path, description = "Number of the approval in the flow", minimum = 1),
    ),
    responses(
        (status = 200, description = "The approval", body = Approval<SourceCommit>),
        (status = 404, description = "No such flow or approval", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn get_approval(
    State(site): State<Site>,
    Admitted { organization, rest: (flow, number), .. }: Admitted<Read, (String, String)>,
    uri: Uri,
) -> Result<axum::Json<Approval<SourceCommit>>, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let number = Problem::number("approval_number", &number)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let approvals = transaction.approvals(&organization, flow.as_str(), Some(number), None).await?;
    let approval = approvals
        .ok_or_else(|| no_flow(&flow))?
        .pop()
        .ok_or_else(|| Problem::not_found(format!("approval {number} of flow \"{flow}\" not found")))?;
    let built = transaction.artifacts_built_from(&organization, &approval.content.commits).await?;
    Ok(axum::Json(response(approval, |commit| SourceCommit {
        artifact_fingerprints: built.get(&commit).into_iter().flatten().copied().collect(),
        commit_sha: commit,
    })))
}

/// List the approvals of an artifact in a flow.
#[utoipa::path(
    get,
    path = "/artifacts/{org}/{flow_name}/{fingerprint}/approvals",
    tag = "approvals",
    params(
        ("org" = String, Path, description = "Organization"),
        ("flow_name" = inline(FlowName), Path, description = "Flow"),
        ("fingerprint" = inline(Fingerprint), Path, description = "Approved artifact"),
    ),
    responses(
        (status = 200, description = "All approvals, highest number first", body = Approvals),
        (status = 404, description = "No such flow", body = ErrorBody),
        ErrorResponses,
    ),
    security(("token" = [])),
)]
pub(crate) async fn list_approvals(
    State(site): State<Site>,
    Admitted { organization, rest: (flow, artifact), .. }: Admitted<Read, (String, String)>,
    uri: Uri,
) -> Result<axum::Json<Approvals>, Problem> {
    let flow: FlowName = Problem::parse("flow_name", &flow)?;
    let artifact: Fingerprint = Problem::parse("fingerprint", &artifact)?;
    Parameters::read(&uri, &[])?;
    let mut transaction = site.store.read().await?;
    let approvals = transaction.approvals(&organization, flow.as_str(), None, Some(artifact)).await?;
    let approvals = approvals.ok_or_else(|| no_flow(&flow))?;
    Ok(axum::Json(Approvals(approvals.into_iter().map(|approval| response(approval, CommitHash)).collect())))
}

fn no_flow(flow: &FlowName) -> Problem {
    Problem::not_found(format!("flow \"{flow}\" not found"))
}

fn response<C>(approval: stored::Approval, commit: impl Fn(String) -> C) -> Approval<C> {
    let content = approval.content;
    Approval {
        release_number: approval.number,
        base_artifact: content.base,
        artifact_name: content.artifact_name,
        target_artifact: approval.target,
        description: content.description,
        src_commit_list: content.commits.into_iter().map(commit).collect(),
        created_at: approval.created_at,
        last_modified_at: approval.modified_at,
        state: approval.state,
        approvals: content.approvals,
        environment: approval.environment,
        user_data: content.user_data,
    }
}
