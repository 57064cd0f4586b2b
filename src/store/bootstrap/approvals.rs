//! Reconciles the approvals of the bootstrap file, and leaves those of tokens as they are. Each change of an approval is a
//! new row; the open row is current.

use std::collections::BTreeMap;

use sqlx::types::Uuid;

use super::{Approval, Flow, Journal, ReconcileError};
use crate::domain::model::{EnvironmentName, Fingerprint, Timestamp};
use crate::store::columns::json;
use crate::store::transaction::fetch_all;
use crate::store::{Error, Transaction};

/// An approval's flow and number.
type Key = (String, i64);

/// An open approval.
#[derive(sqlx::FromRow)]
struct OpenApproval {
    id: Uuid,
    flow: String,
    number: i64,
    target: Fingerprint,
    environment: Option<String>,
    state: String,
    content: String,
    created_at: Timestamp,
    modified_at: Timestamp,
}

fn label((flow, number): &Key) -> String {
    format!("approval {number} of the flow {flow}")
}

/// The columns of an approval that are compared: environment, state and content.
fn columns(approval: &Approval) -> Result<(Option<String>, String, String), Error> {
    let environment = approval.environment.as_ref().map(EnvironmentName::as_str);
    Ok((environment.map(str::to_owned), approval.state.as_str().to_owned(), json(&approval.content)?))
}

impl Transaction {
    pub(super) async fn reconcile_approvals(
        &mut self,
        organization: &str,
        flows: &[Flow],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), ReconcileError> {
        const CLOSE: &str = "UPDATE approvals SET closed_at = $1 WHERE organization = $2 AND id = $3";
        let listed = flows.iter().flat_map(|flow| {
            flow.approvals.iter().map(|approval| ((flow.name.as_str().to_owned(), approval.number), approval))
        });
        let mut wanted: BTreeMap<Key, &Approval> = listed.collect();
        let before = journal.changes.len();
        for open in self.declared_approvals(organization).await? {
            let key = (open.flow, open.number);
            let label = label(&key);
            match wanted.remove(&key) {
                None => {
                    self.close(CLOSE, organization, open.id, now).await?;
                    journal.record(organization, format!("the {label} was removed"));
                }
                Some(approval) if approval.target != open.target => {
                    return Err(ReconcileError::number_has_other_artifact(organization, label));
                }
                Some(approval) if columns(approval)? == (open.environment, open.state, open.content) => {}
                Some(approval) => {
                    self.close(CLOSE, organization, open.id, now).await?;
                    // Later than the state before, whose replica may have a clock that is ahead.
                    let times = (open.created_at, now.after(Some(open.modified_at)));
                    self.insert_approval(organization, &key.0, approval, None, times).await?;
                    journal.record(organization, describe(&label, approval));
                }
            }
        }
        for (key, approval) in wanted {
            if let Some(before) = self.approval(organization, &key.0, key.1).await? {
                return Err(match before.created_by {
                    Some(_) => ReconcileError::number_is_of_a_token(organization, label(&key)),
                    None => ReconcileError::number_was_removed(organization, label(&key)),
                });
            }
            self.insert_approval(organization, &key.0, approval, None, (now, now)).await?;
            journal.record(organization, describe(&label(&key), approval));
        }
        if journal.changes.len() > before {
            for environment in self.environments_with_policies(organization, false).await? {
                journal.mark_for_evaluation(organization, &environment);
            }
        }
        Ok(())
    }

    async fn declared_approvals(&mut self, organization: &str) -> Result<Vec<OpenApproval>, Error> {
        const SELECT: &str = "
            SELECT id, flow, number, target, environment, state, content, created_at, modified_at FROM approvals
            WHERE organization = $1 AND closed_at IS NULL AND created_by IS NULL";
        Ok(fetch_all!(self, SELECT, organization))
    }
}

/// Describes an approval for the audit log.
fn describe(label: &str, approval: &Approval) -> String {
    let environment =
        approval.environment.as_ref().map_or_else(|| "any environment".to_owned(), ToString::to_string);
    let by: Vec<_> =
        approval.content.approvals.iter().map(|sign_off| sign_off.approved_by.as_str()).collect();
    let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(", ")) };
    format!("the {label} is {} for {} in {environment}{by}", approval.state.as_str(), approval.target)
}
