//! Reconciles the tokens of the bootstrap file, and leaves those that were created at runtime as they are.

use crate::Error;
use crate::bootstrap::file::Organization;
use crate::bootstrap::{Reconciliation, until};
use crate::tokens::authentication::Token;

impl Reconciliation<'_> {
    pub(crate) fn declared_tokens(&self, declared: &Organization) -> Result<Vec<Token>, Error> {
        let tokens = declared.tokens.iter().map(|token| {
            token.hash().map(|sha256| Token {
                organization: self.tenant.name.to_owned(),
                name: token.name.to_string(),
                sha256,
                role: token.role,
                scope: token.scope(),
                can_create: token.create,
                expires_at: token.expires,
                created_at: self.now,
                created_by: None,
                last_used_at: None,
            })
        });
        tokens.collect()
    }

    /// Closes the open tokens that are not wanted, and returns the wanted tokens that are not open. Closes a token that was
    /// created at runtime if it `is_replaced`.
    pub(crate) async fn close_tokens(
        &mut self,
        wanted: Vec<Token>,
        is_replaced: impl Fn(&Token) -> bool,
    ) -> Result<Vec<Token>, Error> {
        let mut missing = wanted;
        for open in crate::tokens::authentication::tokens(&mut self.tenant).await? {
            let end = if open.created_by.is_some() {
                if !is_replaced(&open) {
                    continue;
                }
                ", which was created at runtime, was revoked"
            } else if let Some(index) = missing.iter().position(|wanted| wanted.grants_as(&open)) {
                missing.remove(index);
                continue;
            } else {
                " was removed"
            };
            crate::tokens::close(self.tenant.tx, open.sha256, self.now).await?;
            self.record(format!("the {open}{end}"));
        }
        Ok(missing)
    }

    pub(crate) async fn open_tokens(&mut self, tokens: &[Token]) -> Result<(), Error> {
        for token in tokens {
            crate::tokens::insert(self.tenant.tx, token).await?;
            self.record(format!("the {token} was added {}", until(token.expires_at)));
        }
        Ok(())
    }
}
