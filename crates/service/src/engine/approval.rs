//! Approvals by tokens: what a change of one needs besides the request, for operations and pages.
//!
//! An approval is a record: it is withdrawn, never deleted, and has the name of its token. Each change evaluates the artifact in
//! the same transaction, as an attestation does.

use axum::http::StatusCode;
use serde_json::Value;

use crate::app::App;
use crate::engine::audit::Audit;
use crate::engine::guard::{self, Evaluating};
use crate::engine::not_found::{require_environment, require_flow};
use crate::http::problem::Problem;
use crate::identity::access::Caller;
use model::{
    Approval, ApprovalState, EnvironmentName, Fingerprint, FlowName, SignOff, Text, Timestamp, Withdrawal,
};
use rules::notification::{Cause, CauseKind};
use store::Tenant;
use store::approvals::{self, ApprovalContent};

#[derive(Default)]
pub(crate) struct NewApproval {
    pub(crate) description: Text,
    pub(crate) commits: Vec<String>,
    pub(crate) user_data: Value,
    /// Comment and URL of the caller's decision; `None`: pending.
    pub(crate) decision: Option<(Text, Text)>,
}

/// The approval of this number; 404 if there is none.
pub(crate) async fn find_approval(
    tenant: &mut Tenant<'_>,
    flow: &FlowName,
    number: i64,
) -> Result<Approval, Problem> {
    if let Some(approval) = store::approvals::get(tenant, flow.as_str(), number).await? {
        return Ok(approval);
    }
    require_flow(tenant, flow).await?;
    Err(Problem::not_found(format!("approval {number} of flow \"{flow}\" not found")))
}

/// Records an approval and its consequences in one transaction. Returns 200 with the earlier approval if the token has
/// already made it, otherwise 201.
pub(crate) async fn approve(
    app: &App,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    artifact: Fingerprint,
    environment: Option<&EnvironmentName>,
    new: NewApproval,
) -> Result<(StatusCode, Approval), Problem> {
    caller.authorize_approval(organization, flow, environment)?;
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let tenant = &mut evaluating.transaction.of(organization);
    require_flow(tenant, flow).await?;
    if let Some(name) = environment {
        require_environment(tenant, name.as_str()).await?;
    }
    let now = app.site.now();
    let NewApproval { description, commits, user_data, decision } = new;
    let state = if decision.is_some() { ApprovalState::Approved } else { ApprovalState::Pending };
    let sign_off = decision.map(|(comment, url)| SignOff {
        comment: comment.as_str().to_owned(),
        approved_by: caller.display_name.clone(),
        approval_url: url.as_str().to_owned(),
        timestamp: now,
    });
    let base = store::approvals::latest_approved(tenant, flow.as_str(), environment).await?;
    let mut names = store::artifacts::image_names(tenant, artifact).await?.listed;
    let last = store::approvals::last_number(tenant, flow.as_str()).await?;
    let number = last.checked_add(1).ok_or_else(|| {
        Problem::field(
            "flow_name",
            "expected a free number: the flow has an approval with the highest number",
        )
    })?;
    let approval = approvals::NewApproval {
        number,
        target: artifact,
        environment: environment.cloned(),
        state,
        content: ApprovalContent {
            base: base.unwrap_or(artifact),
            artifact_name: if names.is_empty() { String::new() } else { names.swap_remove(0) },
            description: description.as_str().to_owned(),
            commits,
            approvals: sign_off.into_iter().collect(),
            user_data,
        },
    };
    if let Some(number) = store::approvals::repeated(tenant, flow.as_str(), &approval, &caller.name).await? {
        return Ok((StatusCode::OK, find_approval(tenant, flow, number).await?));
    }
    store::approvals::insert(tenant, flow.as_str(), &approval, Some(&caller.name), now, now).await?;
    let done = if state == ApprovalState::Approved { "approved" } else { "requested approval of" };
    let place = environment.map_or("all environments", EnvironmentName::as_str);
    let change = format!("{done} {artifact} for {place}: approval {number} of the flow {flow}");
    let changed = ChangedApproval { number, artifact, change };
    let approval = finish(evaluating, caller, organization, flow, changed, now).await?;
    Ok((StatusCode::CREATED, approval))
}

/// Withdraws an approval that a token made, and records the consequences in one transaction. Returns it as it is if it is
/// withdrawn already.
pub(crate) async fn withdraw(
    app: &App,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    number: i64,
    comment: &Text,
) -> Result<Approval, Problem> {
    let mut evaluating = Evaluating::exclusive(app, organization).await?;
    let tenant = &mut evaluating.transaction.of(organization);
    let approval = find_approval(tenant, flow, number).await?;
    caller.authorize_approval(organization, flow, approval.environment.as_ref())?;
    if approval.created_by.is_none() {
        return Err(Problem::invalid(format!(
            "approval {number} of flow \"{flow}\" comes from the bootstrap file: remove it there to withdraw it"
        )));
    }
    if approval.withdrawal.is_some() {
        return Ok(approval);
    }
    let now = app.site.now().after(Some(approval.last_modified_at));
    let withdrawal = Withdrawal {
        withdrawn_by: caller.display_name.clone(),
        comment: comment.as_str().to_owned(),
        timestamp: now,
    };
    store::approvals::withdraw(tenant, flow.as_str(), number, &withdrawal).await?;
    let change = format!("withdrew approval {number} of the flow {flow}, of {}", approval.target_artifact);
    let changed = ChangedApproval { number, artifact: approval.target_artifact, change };
    finish(evaluating, caller, organization, flow, changed, now).await
}

struct ChangedApproval {
    number: i64,
    artifact: Fingerprint,
    /// The entry in the audit log.
    change: String,
}

/// Evaluates the artifact of a changed approval, records the change in the audit log and commits.
async fn finish(
    mut evaluating: Evaluating<'_>,
    caller: &Caller,
    organization: &str,
    flow: &FlowName,
    changed: ChangedApproval,
    now: Timestamp,
) -> Result<Approval, Problem> {
    let ChangedApproval { number, artifact, change } = changed;
    let cause = Cause { kind: CauseKind::Approval, by: Some(caller.name.clone()) };
    evaluating.evaluate_attested(organization, &[artifact].into(), &guard::ALL, &cause).await?;
    let approval = find_approval(&mut evaluating.transaction.of(organization), flow, number).await?;
    evaluating.audit(Audit::from_token(&caller.name, organization, change), now).await?;
    evaluating.commit().await?;
    Ok(approval)
}
