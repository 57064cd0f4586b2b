//! Issuers: reads their keys and checks their rules.

use std::path::Path;

use url::Url;

use super::value::{InvalidValue, escaped, unique};
use crate::domain::evidence::access::Scope;
use crate::domain::evidence::identity::{Issuer, Rule};
use crate::domain::model::EnvironmentName;
use crate::process::error_causes::describe;
use crate::process::files::read_up_to;
use crate::service::bootstrap::file;
use crate::service::identity::KeySet;

/// Maximum size of a file with keys, in bytes.
const MAX_KEYS: u64 = 256 * 1024;

/// The issuers of an organization.
pub(super) fn resolve(
    issuers: Vec<file::Issuer>,
    place: &str,
    path: &Path,
) -> Result<Vec<Issuer>, InvalidValue> {
    unique(place, issuers.iter().map(|issuer| issuer.name.as_str()))?;
    let mut resolved: Vec<Issuer> = Vec::new();
    for (n, issuer) in issuers.into_iter().enumerate() {
        let at = |key: &str| format!("{place}[{n}].{key}");
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
    let file::Issuer { name, url, audience, jwks, rules } = issuer;
    let invalid = |key: &str, why: &str| (key.to_owned(), why.to_owned());
    // The name of a caller is NAME/SUBJECT, so the name contains no slash.
    if name.parse::<EnvironmentName>().is_err() || name.len() > 64 {
        return Err(invalid("name", "expected at most 64 letters, digits, '-', '_', '.' or '~'"));
    }
    let parsed = url.parse::<Url>().ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    if !parsed
        .is_some_and(|url| url.query().is_none() && url.fragment().is_none() && url.password().is_none())
    {
        return Err(invalid("issuer", "expected an https URL without query, fragment and credentials"));
    }
    let is_text = |text: &str| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
    if !is_text(&audience) {
        return Err(invalid("audience", "expected 1 to 255 bytes without control characters"));
    }
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
    Ok(Issuer { name, url, audience, jwks, rules })
}

fn read_keys(file: &Path, path: &Path) -> Result<String, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    let place = format!("the file \"{}\"", escaped(&file));
    let bytes = read_up_to(MAX_KEYS, &file).map_err(|error| format!("failed to read {place}: {error}"))?;
    KeySet::parse(&bytes).map_err(|error| format!("{place}: {}", describe(&error)))?;
    String::from_utf8(bytes).map_err(|_| format!("{place}: expected text"))
}
