//! Writes the audit log: changes by the bootstrap file and by tokens with the role admin.
//!
//! Called in the transaction that makes the changes.

use sqlx::types::Uuid;

use super::transaction::insert;
use super::{Error, Transaction};
use crate::domain::model::Timestamp;

impl Transaction {
    /// Records changes by an actor, each with its organization.
    pub async fn insert_audit(
        &mut self,
        actor: &str,
        changes: &[(String, String)],
        at: Timestamp,
    ) -> Result<(), Error> {
        insert!(self, "INSERT INTO audit (id, organization, at, actor, change) ", "", changes, |values,
                                                                                                (
            organization,
            change,
        )| {
            values.push_bind(Uuid::now_v7()).push_bind(organization.as_str()).push_bind(at.micros());
            values.push_bind(actor).push_bind(change.as_str());
        });
        Ok(())
    }
}
