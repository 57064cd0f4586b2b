//! Allow an artifact in an environment: an extension of the interface.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::declared::declared;
use crate::engine::guard::Evaluating;
use crate::engine::not_found;
use crate::http::json::{Contents, Sent};
use crate::http::problem::{ErrorBody, Problem};
use crate::http::response::created;
use crate::identity::access::{Administer, Admitted};
use model::{EnvironmentName, Fingerprint, Text, UnknownFields};
use rules::notification::{Cause, CauseKind};
use store::approvals::allow_list::NewAllowance;

/// An entry of an allow-list.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct AllowedArtifact {
    artifact_fingerprint: Fingerprint,
    /// Ignored: the name comes from reports.
    #[expect(dead_code, reason = "clients send it")]
    artifact_name: Option<Text>,
    /// Why the artifact is allowed.
    #[schema(value_type = String, min_length = 1, max_length = 65_536, pattern = r"^[^\x00]+$")]
    description: Text,
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: UnknownFields,
}

impl Contents for AllowedArtifact {
    const WHAT: &'static str = "the entry";
}

/// Allow an artifact in an environment regardless of the policy, until the bootstrap file or an administrator changes it. Not
/// in the interface.
#[utoipa::path(
    put,
    path = "/allowlists/{org}/{env_name}",
    tag = "environments",
    request_body(content = AllowedArtifact, content_type = "application/json"),
    responses(
        (status = 200, description = "The artifact was allowed before", body = String, content_type = "application/json"),
        (status = 201, description = "Allowed", body = String, content_type = "application/json"),
        (status = 404, description = "No such environment", body = ErrorBody),
    ),
)]
pub(crate) async fn allow_artifact(
    State(app): State<App>,
    Admitted { organization, rest: environment, caller, .. }: Admitted<Administer, EnvironmentName>,
    Sent(sent, _share): Sent<AllowedArtifact>,
) -> Result<Response, Problem> {
    let (artifact, reason) = (sent.artifact_fingerprint, sent.description.as_str());
    if reason.is_empty() {
        return Err(Problem::field("description", "expected the reason"));
    }
    let unknown = sent.unknown.names().map(str::to_owned).collect();
    app.unknown_fields.warn(caller.token, &caller.name, &organization, unknown);
    let name = environment.as_str();
    let mut evaluating = Evaluating::exclusive(&app, &organization).await?;
    let tenant = &mut evaluating.transaction.of(&organization);
    not_found::require_environment(tenant, name).await?;
    let open = store::approvals::allow_list::get(tenant, name, artifact).await?;
    if open.as_ref().is_some_and(|open| open.is_declared) {
        return Err(declared("allow-list entry", artifact));
    }
    let now = app.site.now();
    let new = NewAllowance { artifact, reason, author: &caller.name };
    store::approvals::allow_list::allow(tenant, name, new, open.as_ref(), now).await?;
    let cause = Cause { kind: CauseKind::AllowList, by: Some(caller.name.clone()) };
    evaluating.reevaluate(&organization, name, &cause).await?;
    let change = format!("allowed {artifact} in {environment} without expiry: {reason}");
    evaluating.audit(Audit::from_token(&caller.name, &organization, change), now).await?;
    evaluating.commit().await?;
    Ok(created(open.is_none()))
}
