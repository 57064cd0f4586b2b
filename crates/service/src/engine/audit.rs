//! The audit log: changes by the bootstrap file and by tokens of role `admin`, sign-ins and refused attestations.
//!
//! Entries are written in the transaction of the change and logged after its commit.

use std::time::Duration;

use crate::identity::access::Caller;
use model::Timestamp;
use model::access::Role;
use model::escape::Escaped;
use store::{Error, Transaction};

/// Interval between equal audit entries about sign-ins and refused requests.
const REPEATED_AFTER: Duration = Duration::from_hours(1);

#[must_use = "audit entries must be recorded and logged"]
pub(crate) struct Audit {
    actor: String,
    /// Organization and description of each change.
    changes: Vec<(String, String)>,
}

impl Audit {
    pub(crate) fn from_bootstrap(generation: i64, changes: Vec<(String, String)>) -> Self {
        Self { actor: format!("bootstrap file, generation {generation}"), changes }
    }

    /// A change by a caller; empty unless the caller's role is `admin`.
    pub(crate) fn from_caller(caller: &Caller, organization: &str, change: impl FnOnce() -> String) -> Self {
        let is_admin = caller.role == Role::Admin;
        let changes = is_admin.then(|| (organization.to_owned(), change())).into_iter().collect();
        Self { actor: actor(&caller.name), changes }
    }

    /// A sign-in or a refused request, whatever the role of the token.
    pub(crate) fn from_token(token: &str, organization: &str, change: String) -> Self {
        Self { actor: actor(token), changes: vec![(organization.to_owned(), change)] }
    }

    /// Writes the entries, unless the same ones were written within the last hour. Returns whether it did.
    pub(crate) async fn record_once(
        &self,
        transaction: &mut Transaction,
        at: Timestamp,
    ) -> Result<bool, Error> {
        let since = at.earlier(REPEATED_AFTER);
        for (organization, change) in &self.changes {
            if store::audit::is_audited(&mut transaction.of(organization), &self.actor, change, since).await?
            {
                return Ok(false);
            }
        }
        self.record(transaction, at).await?;
        Ok(true)
    }

    pub(crate) async fn record(&self, transaction: &mut Transaction, at: Timestamp) -> Result<(), Error> {
        store::audit::insert(transaction, &self.actor, &self.changes, at).await
    }

    /// Logs the entries, after the commit.
    pub(crate) fn log(self) {
        let actor = Escaped(&self.actor);
        for (organization, change) in &self.changes {
            let (organization, change) = (Escaped(organization), Escaped(change));
            tracing::info!(
                target: "supercargo::audit",
                actor = %actor, organization = %organization, change = %change,
                "audit: {actor}, {organization}: {change}"
            );
        }
    }
}

fn actor(token: &str) -> String {
    format!("token {token}")
}
