//! Tokens, by their hashes.

use sqlx::types::Uuid;

use super::{Journal, Token, until};
use crate::domain::model::Timestamp;
use crate::store::columns::{fingerprint, json};
use crate::store::transaction::on;
use crate::store::{Error, Transaction};

/// A token, in words: its name and what it may do.
fn said(token: &Token) -> String {
    let Token { name, role, scope, .. } = token;
    let scope = if scope.0.is_empty() { String::new() } else { format!(" for {}", scope.0.join(", ")) };
    format!("token {name} of role {}{scope}", role.as_str())
}

impl Transaction {
    /// Closes the open tokens that are not wanted; gives those that are wanted and not open.
    pub(super) async fn close_tokens<'a>(
        &mut self,
        organization: &str,
        wanted: &'a [Token],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<Vec<&'a Token>, Error> {
        type Row = (Uuid, String, Vec<u8>, String, String, Option<i64>);
        const SELECT: &str = "
            SELECT id, name, sha256, role, scope, expires_at FROM tokens
            WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE tokens SET closed_at = $1 WHERE id = $2";
        const END: &str = "DELETE FROM sessions WHERE token = $1";
        let rows: Vec<Row> =
            on!(self, |connection| sqlx::query_as(SELECT).bind(organization).fetch_all(connection).await?);
        let mut missing: Vec<&Token> = wanted.iter().collect();
        for (id, name, sha256, role, scope, expires_at) in rows {
            let there = Token {
                name,
                sha256: fingerprint(&sha256)?,
                role: role.parse().map_err(|_| Error::Unreadable("a role"))?,
                scope: serde_json::from_str(&scope).map_err(|_| Error::Unreadable("a scope"))?,
                expires_at: expires_at.map(Timestamp::from_micros),
            };
            if let Some(place) = missing.iter().position(|token| **token == there) {
                missing.remove(place);
            } else {
                self.close(CLOSE, id, now).await?;
                // Should the token come again, they do not.
                on!(self, |connection| {
                    sqlx::query(END).bind(&sha256).execute(connection).await?;
                });
                journal.note(organization, format!("the {} was closed", said(&there)));
            }
        }
        Ok(missing)
    }

    pub(super) async fn open_tokens(
        &mut self,
        organization: &str,
        tokens: &[&Token],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const INSERT: &str = "
            INSERT INTO tokens (id, organization, name, sha256, role, scope, expires_at, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        for token in tokens {
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(&token.name);
                let insert = insert.bind(token.sha256.bytes().as_slice()).bind(token.role.as_str());
                let insert = insert.bind(json(&token.scope)).bind(token.expires_at.map(Timestamp::micros));
                insert.bind(now.micros()).execute(connection).await?;
            });
            journal.note(organization, format!("the {} was opened {}", said(token), until(token.expires_at)));
        }
        Ok(())
    }
}
