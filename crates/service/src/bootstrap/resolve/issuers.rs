//! Issuers: reads their keys and checks their rules.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use url::Url;

use crate::bootstrap::resolve::secret::{self, Found, read_text};
use crate::bootstrap::resolve::value::{InvalidValue, unique};
use crate::engine::notify::AddressBook;
use crate::identity::KeySet;
use model::FlowName;
use model::escape::needs_escape;
use runtime::error_causes::describe;
use store::bootstrap::file::{Issuer, Jwks};

/// Maximum size of a file with keys, in bytes.
const MAX_KEYS: u64 = 256 * 1024;

pub(crate) fn resolve(
    issuers: &mut [Issuer],
    organization: &str,
    place: &str,
    path: &Path,
    book: &mut AddressBook,
) -> Result<(), InvalidValue> {
    unique(place, issuers.iter().map(|issuer| issuer.name.as_str()))?;
    for (n, issuer) in issuers.iter_mut().enumerate() {
        let at = |key: &str| format!("{place}[{n}].{key}");
        let reference = issuer.sign_in.as_ref().and_then(|sign_in| sign_in.client_secret.as_ref());
        if let Some(reference) = reference {
            let client_secret =
                secret::any(reference, path).map_err(|why| (at("signIn.clientSecret"), why))?;
            book.client_secrets.insert((organization.to_owned(), issuer.name.clone()), client_secret);
        }
        resolve_issuer(issuer, path).map_err(|(key, why)| (at(&key), why))?;
    }
    let mut seen = BTreeMap::new();
    for (n, issuer) in issuers.iter().enumerate() {
        let keys = issuer.jwks.as_ref().map(|jwks| &jwks.text);
        if let Some(other) = seen.insert((&issuer.url, &issuer.audience, keys), &issuer.name) {
            let why = format!("same issuer, audience and keys as {other}: add the rules to that issuer");
            return Err((format!("{place}[{n}].issuer"), why));
        }
    }
    Ok(())
}

fn resolve_issuer(issuer: &mut Issuer, path: &Path) -> Result<(), InvalidValue> {
    let Issuer { name, url, audience, jwks, sign_in, rules } = issuer;
    let invalid = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
    // The name of a caller is NAME/SUBJECT, so the name contains no slash.
    if name.parse::<FlowName>().is_err() || name.len() > 64 {
        return invalid("name", "expected at most 64 letters, digits, '-', '_', '.' or '~'");
    }
    let parsed = url.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let has_more = |url: &Url| {
        url.query().is_some() || url.fragment().is_some() || url.password().is_some() || url.username() != ""
    };
    if parsed.is_none_or(|url| has_more(&url)) {
        let why = "expected an http or https URL without query, fragment and credentials";
        return invalid("issuer", why);
    }
    let is_text = |text: &str| (1..=255).contains(&text.len()) && !text.contains(needs_escape);
    if let Some(sign_in) = sign_in {
        let client_id = audience.get_or_insert_with(|| sign_in.client_id.clone());
        if *client_id != sign_in.client_id {
            return invalid("audience", "expected the clientId of signIn, or no audience");
        }
        if jwks.is_some() {
            let why = "must not be combined with jwks: sign-in needs the endpoints of the issuer";
            return invalid("signIn", why);
        }
        let is_scope = |scope: &String| is_text(scope) && !scope.contains([' ', '"', '\\']);
        if !sign_in.scopes.iter().all(is_scope) {
            return invalid("signIn.scopes", "expected names without spaces, such as groups");
        }
    }
    if !audience.as_deref().is_some_and(is_text) {
        return invalid("audience", "expected 1 to 255 bytes without control or invisible characters");
    }
    if rules.is_empty() {
        return invalid("rules", "expected at least one rule");
    }
    if let Some(jwks) = jwks {
        read_keys(jwks, path)?;
    }
    for (n, rule) in rules.iter().enumerate() {
        let claims = &rule.claims;
        if claims.is_empty()
            || !claims.iter().flat_map(|(name, value)| [name, value]).all(|text| is_text(text))
        {
            let why = "expected at least one claim, and names and values of 1 to 255 bytes without control or invisible characters";
            return invalid(&format!("rules[{n}].claims"), why);
        }
        let checked = rule.scope().check(rule.role, rule.create);
        checked.map_err(|error| (format!("rules[{n}]"), error.to_string()))?;
    }
    Ok(())
}

fn read_keys(jwks: &mut Jwks, path: &Path) -> Result<(), InvalidValue> {
    let (key, (content, place)) = match (&jwks.file, &jwks.keys) {
        (Some(file), None) => {
            let Found { content, place } =
                read_text(MAX_KEYS, file, path).map_err(|why| ("jwks.file".to_owned(), why))?;
            ("jwks.file", (content, format!("{place}: ")))
        }
        (None, Some(keys)) => ("jwks.keys", (json!({ "keys": keys }).to_string(), String::new())),
        _ => return Err(("jwks".to_owned(), "expected either file or keys".to_owned())),
    };
    let invalid = |why: String| (key.to_owned(), format!("{place}{why}"));
    KeySet::parse(content.as_bytes()).map_err(|error| invalid(describe(&error)))?;
    if KeySet::has_private_keys(content.as_bytes()) {
        return Err(invalid("expected public keys only, got a private key".to_owned()));
    }
    jwks.text = content;
    Ok(())
}
