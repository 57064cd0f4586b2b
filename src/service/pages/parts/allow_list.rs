//! Adds the author, reason and expiry of an allow-list entry to the verdict that it causes.

use std::collections::HashMap;

use sqlx::types::Uuid;

use super::format::utc;
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::environment_contents::Allowance;
use crate::store::{self, Transaction};

/// The verdicts of an environment, now or at a time in the past, with the entries of the allow-list as reasons.
pub(crate) async fn verdicts(
    transaction: &mut Transaction,
    environment: Uuid,
    at: Option<Timestamp>,
) -> Result<HashMap<Fingerprint, Verdict>, store::Error> {
    let mut verdicts = transaction.verdicts(environment, at).await?;
    let allowed = transaction.allow_list(environment, at).await?;
    for (artifact, allowance) in &allowed {
        if let Some(verdict) = verdicts.get_mut(artifact) {
            add_allowance(verdict, Some(allowance));
        }
    }
    Ok(verdicts)
}

/// Appends the entry to the reasons of a verdict that the allow-list caused.
pub(crate) fn add_allowance(verdict: &mut Verdict, allowance: Option<&Allowance>) {
    if let Some(Allowance { reason, author, until }) = allowance.filter(|_| verdict.is_allowed) {
        let until = until.map_or_else(String::new, |until| format!(" until {}", utc(until)));
        verdict.reasons.push(format!("allowed by {author}{until}: {reason}"));
    }
}
