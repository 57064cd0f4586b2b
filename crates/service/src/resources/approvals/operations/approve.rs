//! Approve artifacts and withdraw approvals: extensions of the interface, as clients of the public service send them.
//!
//! The approver is the token: the request cannot name another one.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::app::App;
use crate::engine::approval::{NewApproval, approve, withdraw};
use crate::http::body::{Paced, content_length};
use crate::http::json;
use crate::http::problem::{ErrorBody, Problem};
use crate::identity::access::{Admitted, Approve};
use crate::limits::MAX_DATA;
use crate::resources::approvals::operations::with_artifacts;
use model::{Approval, CommitHash, EnvironmentName, Fingerprint, FlowName, Text};

/// The body of an approval, or of a request for one. Unknown fields are rejected: with a misspelled `environment`, the
/// approval would apply to all environments.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalRequest {
    artifact_fingerprint: Fingerprint,
    /// `null`: the approval applies to all environments.
    environment: Option<EnvironmentName>,
    #[serde(default)]
    description: Text,
    /// Commits that the artifact adds.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<CommitHash>>)]
    src_commit_list: Vec<CommitHash>,
    /// Ignored.
    #[expect(dead_code, reason = "older clients send it")]
    oldest_commit: Option<Text>,
    /// The decision of the caller; without one, the approval is pending.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<Decision>>, max_items = 1)]
    approvals: Vec<Decision>,
    /// Additional data to store, in any form, at most 64 KiB.
    #[serde(default)]
    user_data: Value,
}

/// The decision of the caller. Other fields, such as `approved_by`, are ignored: the token is the approver.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
struct Decision {
    #[expect(dead_code, reason = "its only value")]
    state: DecisionState,
    #[serde(default)]
    comment: Text,
    #[serde(default)]
    approval_url: Text,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
enum DecisionState {
    #[serde(rename = "APPROVED")]
    Approved,
}

/// The body of a withdrawal.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WithdrawalRequest {
    /// The reason.
    #[serde(default)]
    comment: Text,
}

fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Approve an artifact, or request an approval. The token is the approver.
#[utoipa::path(
    post,
    path = "/approvals/{org}/{flow_name}",
    tag = "approvals",
    request_body(content = ApprovalRequest, content_type = "application/json"),
    responses(
        (status = 200, description = "The token has made this approval already", body = Approval),
        (status = 201, description = "Recorded", body = Approval),
        (status = 404, description = "No such flow or environment", body = ErrorBody),
    ),
)]
pub(crate) async fn approve_artifact(
    State(app): State<App>,
    Admitted { organization, rest: flow, caller, .. }: Admitted<Approve, FlowName>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (sent, _share): (ApprovalRequest, _) =
        json::receive(&app, &organization, "the approval", &headers, body).await?;
    let (artifact, environment) = (sent.artifact_fingerprint, sent.environment.clone());
    let new = sent.check()?;
    let (status, approval) =
        approve(&app, &caller, &organization, &flow, artifact, environment.as_ref(), new).await?;
    let mut transaction = app.site.store.read().await?;
    let approval = with_artifacts(&mut transaction.of(&organization), approval).await?;
    Ok((status, axum::Json(approval)).into_response())
}

/// Withdraw an approval that a token made. It remains, as UNAPPROVED. Not in Kosli's API.
#[utoipa::path(
    put,
    path = "/approvals/{org}/{flow_name}/{approval_number}/withdraw",
    tag = "approvals",
    params(("approval_number" = i64, Path, description = "Number of the approval in the flow", minimum = 1)),
    request_body(content = Option<WithdrawalRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "Withdrawn, now or before", body = Approval),
        (status = 404, description = "No such flow or approval", body = ErrorBody),
    ),
)]
pub(crate) async fn withdraw_approval(
    State(app): State<App>,
    Admitted { organization, rest, caller, .. }: Admitted<Approve, (FlowName, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Approval>, Problem> {
    let (flow, number) = rest;
    let number = Problem::number("approval_number", &number)?;
    let length = content_length(&headers, "the body", MAX_DATA)?.unwrap_or_default();
    let paced = Paced::new(body, app.limits.pace);
    let received = paced.read("the body", MAX_DATA, length, app.inbound.share(&organization)).await?;
    let comment = match received.bytes.trim_ascii() {
        b"" | b"null" => Text::default(),
        bytes => {
            json::require(&headers)?;
            json::read::<WithdrawalRequest>("the withdrawal", bytes)?.comment
        }
    };
    let approval = withdraw(&app, &caller, &organization, &flow, number, &comment).await?;
    let mut transaction = app.site.store.read().await?;
    Ok(axum::Json(with_artifacts(&mut transaction.of(&organization), approval).await?))
}

impl ApprovalRequest {
    fn check(self) -> Result<NewApproval, Problem> {
        let Self { description, src_commit_list: commits, mut approvals, user_data, .. } = self;
        Text::new(user_data.to_string()).map_err(|error| Problem::field("user_data", &error))?;
        let decision = approvals.pop();
        if !approvals.is_empty() {
            return Err(Problem::field(
                "approvals",
                "expected at most one: a token approves for itself only",
            ));
        }
        // Older clients send "undefined" if they have no URL.
        let url = |url: Text| if url.as_str() == "undefined" { Text::default() } else { url };
        let decision = decision.map(|Decision { comment, approval_url, .. }| (comment, url(approval_url)));
        let commits = commits.into_iter().map(|CommitHash(commit)| commit).collect();
        Ok(NewApproval { description, commits, user_data, decision })
    }
}
