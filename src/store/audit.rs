//! Writes the audit log: changes by the bootstrap file and by tokens with the role admin, and refused attestations.
//!
//! Called in the transaction that makes the changes.

use sqlx::types::Uuid;

use super::transaction::{insert, on};
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

    /// Whether this entry was written since then.
    pub async fn is_audited(
        &mut self,
        organization: &str,
        actor: &str,
        change: &str,
        since: Timestamp,
    ) -> Result<bool, Error> {
        const SELECT: &str = "
            SELECT COUNT(*) FROM audit WHERE organization = $1 AND at > $2 AND actor = $3 AND change = $4";
        let count: i64 = on!(self, |connection| {
            let select = sqlx::query_scalar(SELECT).bind(organization).bind(since.micros());
            select.bind(actor).bind(change).fetch_one(connection).await?
        });
        Ok(count > 0)
    }
}
