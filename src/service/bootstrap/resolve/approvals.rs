//! Approvals.

use std::collections::BTreeSet;

use super::value::InvalidValue;
use crate::domain::model::{ApprovalState, SignOff, is_commit_hash};
use crate::service::bootstrap::file;
use crate::store::bootstrap::{Approval, ApprovalContent};

pub(super) fn resolve(approvals: Vec<file::Approval>, place: &str) -> Result<Vec<Approval>, InvalidValue> {
    let mut numbers = BTreeSet::new();
    let numbered = approvals.into_iter().enumerate().map(|(n, approval)| {
        let place = format!("{place}[{n}]");
        if approval.number < 1 || !numbers.insert(approval.number) {
            let why = "expected a number from 1 that is unique in the flow";
            return Err((format!("{place}.number"), why.to_owned()));
        }
        check(&approval).map_err(|(key, why)| (format!("{place}.{key}"), why.to_owned()))?;
        Ok(planned(approval))
    });
    numbered.collect()
}

fn check(approval: &file::Approval) -> Result<(), (&'static str, &'static str)> {
    if approval.state == ApprovalState::Approved && approval.approvals.is_empty() {
        return Err(("approvals", "expected at least one, with by and at, in state APPROVED"));
    }
    // The interface's pattern for the list of an artifact's approvals.
    if !approval.commits.iter().all(|commit| commit.len() == 40 && is_commit_hash(commit)) {
        return Err(("commits", "expected hashes of 40 lowercase hex digits"));
    }
    Ok(())
}

fn planned(approval: file::Approval) -> Approval {
    let approvals = approval.approvals.into_iter().map(|approval| SignOff {
        comment: approval.comment.as_str().to_owned(),
        approved_by: approval.by.as_str().to_owned(),
        approval_url: approval.url.as_str().to_owned(),
        timestamp: approval.at,
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
