//! Reconciles issuers. A changed issuer gets a new row, so that the content of a row never changes.

use serde_json::Value;

use crate::Error;
use crate::bootstrap::file::{self, unresolved};
use crate::bootstrap::{Difference, Reconciliation};
use crate::database::columns::json;
use crate::database::transaction::execute;
use crate::tokens::authentication;
use model::escape::Escaped;
use rules::identity::{Issuer, SignIn};

/// Describes an issuer for the audit log.
fn describe(issuer: &Issuer) -> String {
    let Issuer { name, url, audience, jwks, sign_in, rules } = issuer;
    let rules = rules.iter().map(|rule| {
        let permissions = authentication::describe(rule.role, &rule.scope(), rule.create);
        format!("{permissions} if {rule}")
    });
    let rules: Vec<_> = rules.collect();
    let keys = if jwks.is_some() { ", with keys from a file" } else { "" };
    let sign_in = sign_in.as_ref().map_or_else(String::new, |SignIn { scopes, max_age }| {
        let within = max_age.map_or_else(String::new, |max_age| format!(" within {} s", max_age.as_secs()));
        format!(", with sign-in of people{within} and scopes [{}]", scopes.join(", "))
    });
    format!("issuer {name} of {url} for audience {audience}{keys}{sign_in} ({})", rules.join("; "))
}

/// Describes a change of an issuer if only its keys have changed.
fn changed_keys(before: &Issuer, after: &Issuer) -> Option<String> {
    let (Some(old), Some(new)) = (&before.jwks, &after.jwks) else { return None };
    if (Issuer { jwks: Some(new.clone()), ..before.clone() }) != *after {
        return None;
    }
    let (name, url, old, new) = (&after.name, &after.url, key_ids(old), key_ids(new));
    Some(format!("the keys of issuer {name} of {url} were replaced: they were {old}, and are {new}"))
}

/// The IDs of the keys of a set, some of which the service may be unable to use.
fn key_ids(jwks: &str) -> String {
    let set: Value = serde_json::from_str(jwks).unwrap_or_default();
    let keys = set.get("keys").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ids = keys.iter().map(|key| match key.get("kid").and_then(Value::as_str) {
        Some(id) => format!("\"{}\"", Escaped(id)),
        None => "one without an ID".to_owned(),
    });
    let ids: Vec<_> = ids.collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}

fn stored(declared: &file::Issuer) -> Result<Issuer, Error> {
    let sign_in = declared.sign_in.as_ref().map(|file::SignIn { scopes, max_age, .. }| SignIn {
        scopes: scopes.clone(),
        max_age: max_age.map(|span| span.0),
    });
    Ok(Issuer {
        name: declared.name.clone(),
        url: declared.url.clone(),
        audience: declared.audience.clone().ok_or_else(|| unresolved("the audience of an issuer"))?,
        jwks: declared.jwks.as_ref().map(|jwks| jwks.text.clone()),
        sign_in,
        rules: declared.rules.clone(),
    })
}

impl Reconciliation<'_> {
    pub(crate) async fn issuers(&mut self, issuers: &[file::Issuer]) -> Result<(), Error> {
        const INSERT: &str =
            "INSERT INTO issuers (id, organization, url, content, created_at) VALUES ($1, $2, $3, $4, $5)";
        let open = crate::tokens::issuers::list(self.tenant.tx, Some(self.tenant.name)).await?.into_iter();
        let open = open.map(|stored| (stored.id, stored.issuer.name.clone(), stored.issuer)).collect();
        let declared =
            issuers.iter().map(|issuer| stored(issuer).map(|stored| (issuer.name.clone(), stored)));
        let declared = declared.collect::<Result<_, Error>>()?;
        let Difference { closed, inserted } = Difference::new(open, declared);
        self.close("issuers", closed.iter().map(|(id, ..)| *id).collect()).await?;
        for (_, name, issuer) in &closed {
            match inserted.get(name).and_then(|next| changed_keys(issuer, next)) {
                Some(change) => self.record(change),
                None => self.record(format!("the {} was removed", describe(issuer))),
            }
        }
        for (name, issuer) in &inserted {
            let (id, content) = (crate::new_id(), json(issuer)?);
            execute!(self.tenant.tx, INSERT, id, self.tenant.name, &issuer.url, &content, self.now);
            let mut replaced = closed.iter().filter(|(_, closed, _)| closed == name);
            if !replaced.any(|(_, _, closed)| changed_keys(closed, issuer).is_some()) {
                self.record(format!("the {} was added", describe(issuer)));
            }
        }
        Ok(())
    }
}
