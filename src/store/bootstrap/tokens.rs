//! Reconciles the tokens of the bootstrap file, and leaves those that were created at runtime as they are.

use super::{Journal, Token, until};
use crate::domain::model::Timestamp;
use crate::store::{Error, Transaction, access};

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
        let mut missing: Vec<&Token> = wanted.iter().collect();
        for open in self.tokens(organization).await? {
            let access::Token { name, sha256, role, scope, can_create, expires_at, created_by, .. } = open;
            let token = Token { name, sha256, role, scope, can_create, expires_at };
            let end = if created_by.is_some() {
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
