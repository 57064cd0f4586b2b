//! Reconciles issuers. A changed issuer gets a new row, so that the content of a row never changes.

use sqlx::types::Uuid;

use super::Journal;
use crate::domain::evidence::access::Scope;
use crate::domain::evidence::identity::{Issuer, SignIn};
use crate::domain::model::Timestamp;
use crate::store::columns::json;
use crate::store::transaction::execute;
use crate::store::{Error, Transaction};

/// Describes an issuer for the audit log.
fn describe(issuer: &Issuer) -> String {
    let Issuer { name, url, audience, jwks, sign_in, rules } = issuer;
    let rules = rules.iter().map(|rule| {
        let scope =
            if rule.scope == Scope::default() { String::new() } else { format!(" for {}", rule.scope) };
        let create = if rule.can_create { ", which creates environments," } else { "" };
        format!("role {}{scope}{create} if {rule}", rule.role.as_str())
    });
    let rules: Vec<_> = rules.collect();
    let keys = if jwks.is_some() { ", with keys from a file" } else { "" };
    let sign_in = sign_in.as_ref().map_or_else(String::new, |SignIn { scopes, max_age }| {
        let within = max_age.map_or_else(String::new, |max_age| format!(" within {} s", max_age.as_secs()));
        format!(", with sign-in of people{within} and scopes [{}]", scopes.join(", "))
    });
    format!("issuer {name} of {url} for audience {audience}{keys}{sign_in} ({})", rules.join("; "))
}

impl Transaction {
    pub(super) async fn reconcile_issuers(
        &mut self,
        organization: &str,
        issuers: &[Issuer],
        now: Timestamp,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        const CLOSE: &str = "UPDATE issuers SET closed_at = $1 WHERE organization = $2 AND id = $3";
        const INSERT: &str =
            "INSERT INTO issuers (id, organization, url, content, created_at) VALUES ($1, $2, $3, $4, $5)";
        let open = self.issuers(Some(organization)).await?;
        for stored in open.iter().filter(|stored| !issuers.contains(&stored.issuer)) {
            self.close(CLOSE, organization, stored.id, now).await?;
            journal.record(organization, format!("the {} was removed", describe(&stored.issuer)));
        }
        for issuer in issuers.iter().filter(|issuer| open.iter().all(|stored| stored.issuer != **issuer)) {
            let content = json(issuer)?;
            execute!(self, INSERT, Uuid::now_v7(), organization, &issuer.url, &content, now);
            journal.record(organization, format!("the {} was added", describe(issuer)));
        }
        Ok(())
    }
}
