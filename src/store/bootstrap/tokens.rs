//! Reconciles the tokens of the bootstrap file, and leaves those that were created at runtime as they are.

use super::{Journal, Token, until};
use crate::domain::model::{Fingerprint, Timestamp};
use crate::store::columns::permissions;
use crate::store::transaction::fetch_all;
use crate::store::{Error, Transaction};

/// An open token.
#[derive(sqlx::FromRow)]
struct OpenToken {
    name: String,
    sha256: Fingerprint,
    role: String,
    scope: String,
    can_create: bool,
    expires_at: Option<Timestamp>,
    created_by: Option<String>,
}

impl OpenToken {
    fn parse(&self) -> Result<Token, Error> {
        let (role, scope) = permissions(&self.role, &self.scope)?;
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

impl Transaction {
    /// Closes the open tokens that are not wanted, and returns the wanted tokens that are not open. Closes a token that was
    /// created at runtime if it `is_replaced`.
    pub(super) async fn close_tokens<'a>(
        &mut self,
        organization: &str,
        wanted: &'a [Token],
        is_replaced: impl Fn(&Token) -> bool,
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<Vec<&'a Token>, Error> {
        const SELECT: &str = "
            SELECT name, sha256, role, scope, can_create, expires_at, created_by FROM tokens
            WHERE organization = $1 AND closed_at IS NULL";
        let open: Vec<OpenToken> = fetch_all!(self, SELECT, organization);
        let mut missing: Vec<&Token> = wanted.iter().collect();
        for row in open {
            let token = row.parse()?;
            let end = if row.created_by.is_some() {
                if !is_replaced(&token) {
                    continue;
                }
                ", which was created at runtime, was revoked"
            } else if let Some(index) = missing.iter().position(|wanted| **wanted == token) {
                missing.remove(index);
                continue;
            } else {
                " was removed"
            };
            self.close_token(token.sha256, now).await?;
            journal.record(organization, format!("the {token}{end}"));
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
        for token in tokens {
            self.insert_token(organization, token, None, now).await?;
            journal.record(organization, format!("the {token} was added {}", until(token.expires_at)));
        }
        Ok(())
    }
}
