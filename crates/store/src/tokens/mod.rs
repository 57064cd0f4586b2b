//! Inserts and closes tokens, which are stored as hashes, and records their last use.

pub mod authentication;
pub mod issuers;
pub mod sessions;

use sqlx::types::Uuid;

use crate::database::columns::json;
use crate::database::transaction::{execute, fetch_optional_scalar};
use crate::tokens::authentication::Token;
use crate::{Error, Tenant, Transaction};
use model::log::Kind;
use model::{Fingerprint, Timestamp};

/// Creates a token at runtime.
pub async fn create(transaction: &mut Transaction, token: &Token) -> Result<(), Error> {
    let id = insert(transaction, token).await?;
    transaction.log().row(&token.organization, Kind::Token, id);
    Ok(())
}

pub async fn revoke(tenant: &mut Tenant<'_>, token: Fingerprint, now: Timestamp) -> Result<(), Error> {
    if let Some(id) = close(tenant.tx, token, now).await? {
        tenant.tx.log().row(tenant.name, Kind::TokenEnd, id);
    }
    Ok(())
}

/// Records that a token was used, unless a use since `before` is recorded.
pub async fn record_use(
    transaction: &mut Transaction,
    token: Fingerprint,
    now: Timestamp,
    before: Timestamp,
) -> Result<(), Error> {
    const UPDATE: &str = "
        UPDATE tokens SET last_used_at = $1
        WHERE sha256 = $2 AND closed_at IS NULL AND (last_used_at IS NULL OR last_used_at <= $3)";
    execute!(transaction, UPDATE, now, token, before);
    Ok(())
}

/// Inserts a token, and returns its identifier. The caller adds it to the log.
pub(crate) async fn insert(transaction: &mut Transaction, token: &Token) -> Result<Uuid, Error> {
    const INSERT: &str = "
        INSERT INTO tokens
            (id, organization, name, sha256, role, scope, can_create, expires_at, created_at, created_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let id = crate::new_id();
    execute!(
        transaction,
        INSERT,
        id,
        &token.organization,
        &token.name,
        token.sha256,
        token.role,
        json(&token.scope)?,
        token.can_create,
        token.expires_at,
        token.created_at,
        &token.created_by
    );
    Ok(id)
}

/// Closes an open token, and returns its identifier. Ends its sessions, so that they stay ended if the token is added
/// again. The caller adds it to the log.
pub(crate) async fn close(
    transaction: &mut Transaction,
    token: Fingerprint,
    now: Timestamp,
) -> Result<Option<Uuid>, Error> {
    const CLOSE: &str =
        "UPDATE tokens SET closed_at = $1 WHERE sha256 = $2 AND closed_at IS NULL RETURNING id";
    const END_SESSIONS: &str = "DELETE FROM sessions WHERE token = $1";
    let id: Option<Uuid> = fetch_optional_scalar!(transaction, CLOSE, now, token);
    execute!(transaction, END_SESSIONS, token);
    Ok(id)
}
