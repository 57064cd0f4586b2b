//! Approvals, from the file to the plan.

use std::collections::BTreeSet;

use super::Wrong;
use crate::domain::model::{ApprovalState, SignOff, is_commit_hash};
use crate::service::bootstrap::file;
use crate::store::bootstrap::{Approval, ApprovalContent};

pub(super) fn resolve(approvals: Vec<file::Approval>, place: &str) -> Result<Vec<Approval>, Wrong> {
    let mut numbers = BTreeSet::new();
    let numbered = approvals.into_iter().enumerate().map(|(n, approval)| {
        let place = format!("{place}[{n}]");
        if approval.number < 1 || !numbers.insert(approval.number) {
            let why = "a number from 1 that no other approval of the flow has was expected";
            return Err((format!("{place}.number"), why.to_owned()));
        }
        check(&approval).map_err(|(key, why)| (format!("{place}.{key}"), why.to_owned()))?;
        Ok(planned(approval))
    });
    numbered.collect()
}

fn check(approval: &file::Approval) -> Result<(), (&'static str, &'static str)> {
    if approval.state == ApprovalState::Approved && approval.approvals.is_empty() {
        return Err(("approvals", "what is APPROVED was approved by somebody: by and at were expected"));
    }
    // The interface's pattern for the list of an artifact's approvals.
    if !approval.commits.iter().all(|commit| commit.len() == 40 && is_commit_hash(commit)) {
        return Err(("commits", "hashes of 40 lowercase hex digits were expected"));
    }
    Ok(())
}

fn planned(approval: file::Approval) -> Approval {
    let approvals = approval.approvals.into_iter().map(|said| SignOff {
        comment: said.comment.as_str().to_owned(),
        approved_by: said.by.as_str().to_owned(),
        approval_url: said.url.as_str().to_owned(),
        timestamp: said.at,
    });
    Approval {
        number: approval.number,
        target: approval.artifact,
        environment: approval.environment,
        state: approval.state,
        content: ApprovalContent {
            base: approval.base,
            artifact_name: approval.name.as_str().to_owned(),
            description: approval.description.as_str().to_owned(),
            commits: approval.commits,
            approvals: approvals.collect(),
            user_data: approval.user_data.map_or(serde_json::Value::Null, serde_json::Value::Object),
        },
    }
}
