//! Inserts and closes tokens, which are stored as hashes, and records their last use.

use sqlx::types::Uuid;

use super::access::Token;
use super::columns::json;
use super::transaction::{execute, fetch_optional_scalar};
use super::{Error, Transaction};
use model::log::Kind;
use model::{Fingerprint, Timestamp};

impl Transaction {
    /// Creates a token at runtime.
    pub async fn create_token(&mut self, token: &Token) -> Result<(), Error> {
        let id = self.insert_token(token).await?;
        self.log().row(&token.organization, Kind::Token, id);
        Ok(())
    }

    /// Revokes a token.
    pub async fn revoke_token(
        &mut self,
        organization: &str,
        token: Fingerprint,
        now: Timestamp,
    ) -> Result<(), Error> {
        if let Some(id) = self.close_token(token, now).await? {
            self.log().row(organization, Kind::TokenEnd, id);
        }
        Ok(())
    }

    /// Records that a token was used, unless a use since `before` is recorded.
    pub async fn record_token_use(
        &mut self,
        token: Fingerprint,
        now: Timestamp,
        before: Timestamp,
    ) -> Result<(), Error> {
        const UPDATE: &str = "
            UPDATE tokens SET last_used_at = $1
            WHERE sha256 = $2 AND closed_at IS NULL AND (last_used_at IS NULL OR last_used_at <= $3)";
        execute!(self, UPDATE, now, token, before);
        Ok(())
    }

    /// Inserts a token, and returns its identifier. The caller adds it to the log.
    pub(super) async fn insert_token(&mut self, token: &Token) -> Result<Uuid, Error> {
        const INSERT: &str = "
            INSERT INTO tokens
                (id, organization, name, sha256, role, scope, can_create, expires_at, created_at, created_by)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let id = Uuid::now_v7();
        execute!(
            self,
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
    pub(super) async fn close_token(
        &mut self,
        token: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Uuid>, Error> {
        const CLOSE: &str =
            "UPDATE tokens SET closed_at = $1 WHERE sha256 = $2 AND closed_at IS NULL RETURNING id";
        const END_SESSIONS: &str = "DELETE FROM sessions WHERE token = $1";
        let id: Option<Uuid> = fetch_optional_scalar!(self, CLOSE, now, token);
        execute!(self, END_SESSIONS, token);
        Ok(id)
    }
}
