//! The audit log: what the bootstrap file and tokens of role admin changed. It is in the database, written in
//! the transaction of the change, and is logged once that is committed.

use crate::domain::escape::Visible;
use crate::domain::evidence::access::Role;
use crate::domain::model::Timestamp;
use crate::service::access::Caller;
use crate::store::{Error, Transaction};

/// Changes that somebody makes.
#[must_use = "it has to be recorded, and told"]
pub(crate) struct Audit {
    actor: String,
    /// Each with the organization that it is in.
    changes: Vec<(String, String)>,
}

impl Audit {
    /// What the bootstrap file of a generation changes.
    pub(crate) fn of_bootstrap(generation: i64, changes: Vec<(String, String)>) -> Self {
        Self { actor: format!("bootstrap file, generation {generation}"), changes }
    }

    /// What a caller changes: nothing that is looked after, unless it is one who may change anything.
    pub(crate) fn of(caller: &Caller, organization: &str, change: impl FnOnce() -> String) -> Self {
        let is_admin = caller.role == Role::Admin;
        let changes = is_admin.then(|| (organization.to_owned(), change())).into_iter().collect();
        Self { actor: format!("token {}", caller.name), changes }
    }

    /// Writes them down.
    pub(crate) async fn record(&self, transaction: &mut Transaction, at: Timestamp) -> Result<(), Error> {
        transaction.insert_audit(&self.actor, &self.changes, at).await
    }

    /// Logs them, once they are committed.
    pub(crate) fn tell(self) {
        let actor = Visible(&self.actor);
        for (organization, change) in &self.changes {
            let (organization, change) = (Visible(organization), Visible(change));
            tracing::info!(
                target: "supercargo::audit",
                actor = %actor, organization = %organization, change = %change,
                "audit: {actor}, {organization}: {change}"
            );
        }
    }
}
