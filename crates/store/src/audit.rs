//! Writes and lists the audit log: changes by the bootstrap file and by tokens with the role admin, and refused attestations.
//!
//! Entries are written in the transaction that makes the changes.

use serde::Serialize;

use crate::attestations::TimeRange;
use crate::database::rows::Id;
use crate::database::transaction::{fetch_all, fetch_scalar, insert};
use crate::{Error, Tenant, Transaction};
use model::log::Kind;
use model::{Page, Timestamp};

/// A change by the bootstrap file or by a token, a sign-in, or a refused attestation. Not in Kosli's API.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct AuditEntry {
    /// The entry's identifier.
    #[schema(value_type = String)]
    pub id: Id,
    /// Time of the change.
    pub at: Timestamp,
    /// The token, or the bootstrap file with its generation.
    pub actor: String,
    /// The change.
    pub change: String,
}

/// Records changes by an actor, each with its organization.
pub async fn insert(
    transaction: &mut Transaction,
    actor: &str,
    changes: &[(String, String)],
    at: Timestamp,
) -> Result<(), Error> {
    let changes: Vec<_> = changes.iter().map(|change| (crate::new_id(), change)).collect();
    insert!(transaction, "INSERT INTO audit (organization, id, at, actor, change) ", "", &changes, |values,
                                                                                                    (
        id,
        (organization, change),
    )| {
        values.push_bind(organization.as_str()).push_bind(*id).push_bind(at.micros());
        values.push_bind(actor).push_bind(change.as_str());
    });
    for (id, (organization, _)) in changes {
        transaction.log().row(organization, Kind::Audit, id);
    }
    Ok(())
}

/// A page of the log, newest first, and the total number of entries.
pub async fn list(
    tenant: &mut Tenant<'_>,
    span: TimeRange,
    page: Page,
) -> Result<(Vec<AuditEntry>, u64), Error> {
    const COUNT: &str = "SELECT COUNT(*) FROM audit WHERE organization = $1 AND at >= $2 AND at < $3";
    const SELECT: &str = "
        SELECT id, at, actor, change FROM audit WHERE organization = $1 AND at >= $2 AND at < $3
        ORDER BY at DESC, id DESC LIMIT $4 OFFSET $5";
    let total: i64 = fetch_scalar!(tenant.tx, COUNT, tenant.name, span.from, span.until);
    let entries =
        fetch_all!(tenant.tx, SELECT, tenant.name, span.from, span.until, page.size(), page.offset());
    Ok((entries, total.unsigned_abs()))
}

/// Whether this entry was written since then.
pub async fn is_audited(
    tenant: &mut Tenant<'_>,
    actor: &str,
    change: &str,
    since: Timestamp,
) -> Result<bool, Error> {
    const SELECT: &str = "
        SELECT COUNT(*) FROM audit WHERE organization = $1 AND at > $2 AND actor = $3 AND change = $4";
    let count: i64 = fetch_scalar!(tenant.tx, SELECT, tenant.name, since, actor, change);
    Ok(count > 0)
}
