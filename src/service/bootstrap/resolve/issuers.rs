//! Issuers: reads their keys and checks their rules.

use std::path::Path;

use url::Url;

use super::secret;
use super::value::{InvalidValue, escaped, unique};
use crate::domain::evidence::access::Scope;
use crate::domain::evidence::identity::{Issuer, Rule, SignIn};
use crate::domain::model::EnvironmentName;
use crate::process::error_causes::describe;
use crate::process::files::read_up_to;
use crate::service::bootstrap::file;
use crate::service::identity::KeySet;
use crate::service::notify::AddressBook;

/// Maximum size of a file with keys, in bytes.
const MAX_KEYS: u64 = 256 * 1024;

/// The issuers of an organization.
pub(super) fn resolve(
    issuers: Vec<file::Issuer>,
    organization: &str,
    place: &str,
    path: &Path,
    book: &mut AddressBook,
) -> Result<Vec<Issuer>, InvalidValue> {
    unique(place, issuers.iter().map(|issuer| issuer.name.as_str()))?;
    let mut resolved: Vec<Issuer> = Vec::new();
    for (n, issuer) in issuers.into_iter().enumerate() {
        let at = |key: &str| format!("{place}[{n}].{key}");
        let key = (organization.to_owned(), issuer.name.clone());
        let reference = issuer.sign_in.as_ref().and_then(|sign_in| sign_in.client_secret.as_ref());
        if let Some(reference) = reference {
            let client_secret =
                secret::any(reference, path).map_err(|why| (at("signIn.clientSecret"), why))?;
            book.client_secrets.insert(key, client_secret);
        }
        let issuer = resolve_issuer(issuer, path).map_err(|(key, why)| (at(&key), why))?;
        let of = |issuer: &Issuer| (issuer.url.clone(), issuer.audience.clone(), issuer.jwks.clone());
        if let Some(other) = resolved.iter().find(|other| of(other) == of(&issuer)) {
            let why =
                format!("same issuer, audience and keys as {}: add the rules to that issuer", other.name);
            return Err((at("issuer"), why));
        }
        resolved.push(issuer);
    }
    Ok(resolved)
}

fn resolve_issuer(issuer: file::Issuer, path: &Path) -> Result<Issuer, InvalidValue> {
    let file::Issuer { name, url, audience, jwks, sign_in, rules } = issuer;
    let invalid = |key: &str, why: &str| (key.to_owned(), why.to_owned());
    // The name of a caller is NAME/SUBJECT, so the name contains no slash.
    if name.parse::<EnvironmentName>().is_err() || name.len() > 64 {
        return Err(invalid("name", "expected at most 64 letters, digits, '-', '_', '.' or '~'"));
    }
    let parsed = url.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let has_more = |url: &Url| {
        url.query().is_some() || url.fragment().is_some() || url.password().is_some() || url.username() != ""
    };
    if parsed.is_none_or(|url| has_more(&url)) {
        return Err(invalid(
            "issuer",
            "expected an http or https URL without query, fragment and credentials",
        ));
    }
    let is_text = |text: &str| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
    let client_id = sign_in.as_ref().map(|sign_in| sign_in.client_id.clone());
    if sign_in.is_some() && audience.is_some() && audience != client_id {
        return Err(invalid("audience", "expected the clientId of signIn, or no audience"));
    }
    let Some(audience) = client_id.or(audience).filter(|audience| is_text(audience)) else {
        return Err(invalid("audience", "expected 1 to 255 bytes without control characters"));
    };
    if sign_in.is_some() && jwks.is_some() {
        return Err(invalid(
            "signIn",
            "must not be combined with jwks: sign-in needs the endpoints of the issuer",
        ));
    }
    let is_scope = |scope: &String| is_text(scope) && !scope.contains([' ', '"', '\\']);
    if !sign_in.iter().flat_map(|sign_in| &sign_in.scopes).all(is_scope) {
        return Err(invalid("signIn.scopes", "expected names without spaces, such as groups"));
    }
    let sign_in = sign_in
        .map(|file::SignIn { scopes, max_age, .. }| SignIn { scopes, max_age: max_age.map(|span| span.0) });
    if rules.is_empty() {
        return Err(invalid("rules", "expected at least one rule"));
    }
    let jwks = match jwks {
        None => None,
        Some(jwks) => Some(read_keys(&jwks.file, path).map_err(|why| ("jwks.file".to_owned(), why))?),
    };
    let rules = rules.into_iter().enumerate().map(|(n, rule)| {
        let file::Rule { claims, role, environments, create, flows } = rule;
        if claims.is_empty() || !claims.iter().flat_map(|(name, value)| [name, value]).all(|text| is_text(text)) {
            let why = "expected at least one claim, and names and values of 1 to 255 bytes without control characters";
            return Err((format!("rules[{n}].claims"), why.to_owned()));
        }
        let scope = Scope::new(role, environments, flows, create);
        let scope = scope.map_err(|error| (format!("rules[{n}]"), error.to_string()))?;
        Ok(Rule { claims, role, scope, can_create: create })
    });
    let rules = rules.collect::<Result<_, _>>()?;
    Ok(Issuer { name, url, audience, jwks, sign_in, rules })
}

fn read_keys(file: &Path, path: &Path) -> Result<String, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let place = format!("the file \"{}\"", escaped(&file));
    let bytes = read_up_to(MAX_KEYS, &file).map_err(|error| format!("failed to read {place}: {error}"))?;
    KeySet::parse(&bytes).map_err(|error| format!("{place}: {}", describe(&error)))?;
    if KeySet::has_private_keys(&bytes) {
        return Err(format!("{place}: expected public keys only, got a private key"));
    }
    String::from_utf8(bytes).map_err(|_| format!("{place}: expected text"))
}
