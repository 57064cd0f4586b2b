//! Approvals.

use std::collections::BTreeSet;

use crate::bootstrap::resolve::value::InvalidValue;
use model::{ApprovalState, is_commit_hash};
use store::bootstrap::file::Approval;

pub(crate) fn check(approvals: &[Approval], place: &str) -> Result<(), InvalidValue> {
    let mut numbers = BTreeSet::new();
    for (n, approval) in approvals.iter().enumerate() {
        let invalid = |key: &str, why: &str| Err((format!("{place}[{n}].{key}"), why.to_owned()));
        if approval.number < 1 || !numbers.insert(approval.number) {
            return invalid("number", "expected a number from 1 that is unique in the flow");
        }
        if approval.state == ApprovalState::Approved && approval.approvals.is_empty() {
            return invalid("approvals", "expected at least one, with by and at, in state APPROVED");
        }
        // The interface's pattern for the list of an artifact's approvals.
        if !approval.commits.iter().all(|commit| commit.len() == 40 && is_commit_hash(commit)) {
            return invalid("commits", "expected hashes of 40 lowercase hex digits");
        }
    }
    Ok(())
}
