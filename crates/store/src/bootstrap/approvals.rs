//! Reconciles the approvals of the bootstrap file, and leaves those of tokens as they are. Each change of an approval is a
//! new row; the open row is current.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use crate::approvals::{ApprovalContent, NewApproval};
use crate::bootstrap::file::{self, Flow};
use crate::bootstrap::{ReconcileError, Reconciliation};
use crate::database::columns::Json;
use crate::database::transaction::fetch_all;
use model::{ApprovalState, EnvironmentName, Fingerprint, SignOff, Timestamp};

#[derive(sqlx::FromRow)]
struct OpenApproval {
    id: Uuid,
    flow: String,
    number: i64,
    target: Fingerprint,
    environment: Option<String>,
    state: ApprovalState,
    content: Json<ApprovalContent>,
    created_at: Timestamp,
    modified_at: Timestamp,
}

fn new_approval(declared: &file::Approval) -> NewApproval {
    let approvals = declared.approvals.iter().map(|sign_off| SignOff {
        comment: sign_off.comment.as_str().to_owned(),
        approved_by: sign_off.by.as_str().to_owned(),
        approval_url: sign_off.url.as_str().to_owned(),
        timestamp: sign_off.at,
    });
    NewApproval {
        number: declared.number,
        target: declared.artifact,
        environment: declared.environment.clone(),
        state: declared.state,
        content: ApprovalContent {
            base: declared.base,
            artifact_name: declared.name.as_str().to_owned(),
            description: declared.description.as_str().to_owned(),
            commits: declared.commits.clone(),
            approvals: approvals.collect(),
            user_data: declared.user_data.clone().map_or(serde_json::Value::Null, serde_json::Value::Object),
        },
    }
}

impl Reconciliation<'_> {
    pub(crate) async fn approvals(&mut self, flows: &[Flow]) -> Result<(), ReconcileError> {
        const SELECT: &str = "
            SELECT id, flow, number, target, environment, state, content, created_at, modified_at FROM approvals
            WHERE organization = $1 AND closed_at IS NULL AND created_by IS NULL";
        let open: Vec<OpenApproval> = fetch_all!(self.tenant.tx, SELECT, self.tenant.name);
        let declared = flows.iter().flat_map(|flow| {
            flow.approvals
                .iter()
                .map(|approval| ((flow.name.as_str(), approval.number), new_approval(approval)))
        });
        let mut declared: BTreeMap<(&str, i64), NewApproval> = declared.collect();
        let changes = self.journal.changes.len();
        for open in &open {
            let flow = open.flow.as_str();
            let label = label(flow, open.number);
            match declared.remove(&(flow, open.number)) {
                None => {
                    self.close("approvals", vec![open.id]).await?;
                    self.record(format!("the {label} was removed"));
                }
                Some(approval) if approval.target != open.target => {
                    return Err(self.number_conflict(&label, "is for another artifact"));
                }
                Some(approval) => {
                    let environment = approval.environment.as_ref().map(EnvironmentName::as_str);
                    if (environment, approval.state, &approval.content)
                        == (open.environment.as_deref(), open.state, &open.content.0)
                    {
                        continue;
                    }
                    self.close("approvals", vec![open.id]).await?;
                    // Later than the state before, whose replica may have a clock that is ahead.
                    let modified_at = self.now.after(Some(open.modified_at));
                    crate::approvals::insert(
                        &mut self.tenant,
                        flow,
                        &approval,
                        None,
                        open.created_at,
                        modified_at,
                    )
                    .await?;
                    self.record(describe(&label, &approval));
                }
            }
        }
        for ((flow, number), approval) in declared {
            let label = label(flow, number);
            if let Some(before) = crate::approvals::get(&mut self.tenant, flow, number).await? {
                let is_removed = before.created_by.is_none();
                let reason =
                    if is_removed { "was removed from the file before" } else { "was made by a token" };
                return Err(self.number_conflict(&label, reason));
            }
            crate::approvals::insert(&mut self.tenant, flow, &approval, None, self.now, self.now).await?;
            self.record(describe(&label, &approval));
        }
        if self.journal.changes.len() > changes {
            self.mark_environments_with_policies().await?;
        }
        Ok(())
    }
}

fn label(flow: &str, number: i64) -> String {
    format!("approval {number} of the flow {flow}")
}

/// Describes an approval for the audit log.
fn describe(label: &str, approval: &NewApproval) -> String {
    let environment =
        approval.environment.as_ref().map_or_else(|| "any environment".to_owned(), ToString::to_string);
    let by: Vec<_> =
        approval.content.approvals.iter().map(|sign_off| sign_off.approved_by.as_str()).collect();
    let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(", ")) };
    format!("the {label} is {} for {} in {environment}{by}", approval.state.as_str(), approval.target)
}
