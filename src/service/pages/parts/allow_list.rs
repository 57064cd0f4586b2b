//! Who put what is on an allow-list there, why, and until when.

use std::collections::HashMap;

use sqlx::types::Uuid;

use super::format::written;
use crate::domain::evidence::environment_status::Verdict;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::environment_contents::Allowance;
use crate::store::{self, Transaction};

/// The verdicts that hold in an environment, or held at a moment; those of the allow-list say who allowed it.
pub(crate) async fn verdicts(
    transaction: &mut Transaction,
    environment: Uuid,
    at: Option<Timestamp>,
) -> Result<HashMap<Fingerprint, Verdict>, store::Error> {
    let mut verdicts = transaction.verdicts(environment, at).await?;
    let allowed = transaction.allow_list(environment, at).await?;
    for (artifact, verdict) in &mut verdicts {
        tell(verdict, allowed.get(artifact));
    }
    Ok(verdicts)
}

/// Has a verdict of the allow-list say what its entry does.
pub(crate) fn tell(verdict: &mut Verdict, allowance: Option<&Allowance>) {
    if let Some(Allowance { reason, author, until }) = allowance.filter(|_| verdict.is_allowed) {
        let until = until.map_or_else(String::new, |until| format!(" until {}", written(until)));
        verdict.reasons.push(format!("{author} allowed it{until}: {reason}"));
    }
}
