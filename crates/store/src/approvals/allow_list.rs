//! Changes the allow-lists of environments by operation.

use sqlx::types::Uuid;

use crate::database::transaction::{execute, fetch_optional};
use crate::{Error, Tenant};
use model::log::Kind;
use model::{Fingerprint, Timestamp};

/// An open entry of an allow-list.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct OpenAllowance {
    id: Uuid,
    pub reason: String,
    pub author: String,
    /// Whether the bootstrap file lists it.
    pub is_declared: bool,
}

/// The open entry for an artifact in an environment.
pub async fn get(
    tenant: &mut Tenant<'_>,
    environment: &str,
    artifact: Fingerprint,
) -> Result<Option<OpenAllowance>, Error> {
    const SELECT: &str = "
        SELECT id, reason, author, is_declared FROM allowances
        WHERE organization = $1 AND environment = $2 AND fingerprint = $3 AND closed_at IS NULL";
    Ok(fetch_optional!(tenant.tx, SELECT, tenant.name, environment, artifact))
}

#[derive(Debug, Clone, Copy)]
pub struct NewAllowance<'a> {
    pub artifact: Fingerprint,
    pub reason: &'a str,
    pub author: &'a str,
}

/// Adds an entry without expiry, in place of an open one.
pub async fn allow(
    tenant: &mut Tenant<'_>,
    environment: &str,
    new: NewAllowance<'_>,
    replaced: Option<&OpenAllowance>,
    now: Timestamp,
) -> Result<(), Error> {
    const CLOSE: &str = "UPDATE allowances SET closed_at = $1 WHERE organization = $2 AND id = $3";
    const INSERT: &str = "
        INSERT INTO allowances
            (id, organization, environment, fingerprint, reason, author, created_at, is_declared)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    if let Some(replaced) = replaced {
        execute!(tenant.tx, CLOSE, now, tenant.name, replaced.id);
        tenant.tx.log().row(tenant.name, Kind::AllowanceEnd, replaced.id);
    }
    let NewAllowance { artifact, reason, author } = new;
    let id = crate::new_id();
    execute!(tenant.tx, INSERT, id, tenant.name, environment, artifact, reason, author, now, false);
    tenant.tx.log().row(tenant.name, Kind::Allowance, id);
    Ok(())
}
