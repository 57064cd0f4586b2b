//! Reconciles tokens, which are stored as hashes.

use sqlx::types::Uuid;

use super::{Journal, Token, until};
use crate::domain::evidence::access::Scope;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::columns::{permission_columns, permissions};
use crate::store::transaction::{execute, fetch_all, on};
use crate::store::{Error, Transaction};

/// An open token.
#[derive(sqlx::FromRow)]
struct OpenToken {
    id: Uuid,
    name: String,
    sha256: Fingerprint,
    role: String,
    scope: String,
    approves: Option<String>,
    can_create: bool,
    expires_at: Option<Timestamp>,
}

impl OpenToken {
    fn parse(&self) -> Result<Token, Error> {
        let (role, scope) = permissions(&self.role, &self.scope, self.approves.as_deref())?;
        Ok(Token {
            name: self.name.clone(),
            sha256: self.sha256,
            role,
            scope,
            can_create: self.can_create,
            expires_at: self.expires_at,
        })
    }
}

/// Describes a token for the audit log.
fn describe(token: &Token) -> String {
    let Token { name, role, scope, can_create, .. } = token;
    let scope = if *scope == Scope::default() { String::new() } else { format!(" for {scope}") };
    let create = if *can_create { ", which creates environments," } else { "" };
    format!("token {name} of role {}{scope}{create}", role.as_str())
}

impl Transaction {
    /// Closes the open tokens that are not wanted, and returns the wanted tokens that are not open.
    pub(super) async fn close_tokens<'a>(
        &mut self,
        organization: &str,
        wanted: &'a [Token],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<Vec<&'a Token>, Error> {
        const SELECT: &str = "
            SELECT id, name, sha256, role, scope, approves, can_create, expires_at FROM tokens
            WHERE organization = $1 AND closed_at IS NULL";
        const CLOSE: &str = "UPDATE tokens SET closed_at = $1 WHERE id = $2";
        const END_SESSIONS: &str = "DELETE FROM sessions WHERE token = $1";
        let open: Vec<OpenToken> = fetch_all!(self, SELECT, organization);
        let mut missing: Vec<&Token> = wanted.iter().collect();
        for row in open {
            let token = row.parse()?;
            if let Some(index) = missing.iter().position(|wanted| **wanted == token) {
                missing.remove(index);
            } else {
                self.close(CLOSE, row.id, now).await?;
                // Ends its sessions, so that they stay ended if the token is added again.
                execute!(self, END_SESSIONS, &row.sha256);
                journal.record(organization, format!("the {} was removed", describe(&token)));
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
            INSERT INTO tokens
                (id, organization, name, sha256, role, scope, approves, can_create, expires_at, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        for token in tokens {
            let (role, scope, approves) = permission_columns(token.role, &token.scope)?;
            on!(self, |connection| {
                let insert = sqlx::query(INSERT).bind(Uuid::now_v7()).bind(organization).bind(&token.name);
                let insert = insert.bind(token.sha256.bytes().as_slice()).bind(role);
                let insert = insert.bind(scope).bind(approves).bind(token.can_create);
                let insert = insert.bind(token.expires_at.map(Timestamp::micros));
                insert.bind(now.micros()).execute(connection).await?;
            });
            journal.record(
                organization,
                format!("the {} was added {}", describe(token), until(token.expires_at)),
            );
        }
        Ok(())
    }
}
