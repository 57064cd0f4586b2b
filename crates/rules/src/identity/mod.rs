//! Identities of issuers (OIDC): which claims a token needs, and the permissions that rules derive from them.
//!
//! The service calls it after it has verified the signature of a token. Pure: time is an argument, so claims are checked
//! here, and not by jsonwebtoken, which reads the system's clock.

mod person;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::person::Person;
use model::Timestamp;
use model::access::{Role, Scope};
use model::escape::{Escaped, needs_escape};

/// Tolerated difference between the clocks of the issuer and the service.
pub const LEEWAY: Duration = Duration::from_mins(1);

/// Maximum length of a subject, in bytes.
const MAX_SUBJECT: usize = 255;

/// An issuer of tokens for an organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuer {
    /// Its name in the bootstrap file, which precedes the subject in the names of callers.
    pub name: String,
    /// Its URL, the claim `iss` of its tokens.
    pub url: String,
    /// An audience that its tokens must have.
    pub audience: String,
    /// Its keys, a JSON Web Key Set. `None`: the service requests them from the URL.
    pub jwks: Option<String>,
    /// Sign-in of people to pages. The audience is then the client ID.
    pub sign_in: Option<SignIn>,
    /// The permissions of its tokens. The first rule that matches applies.
    pub rules: Vec<Rule>,
}

/// Sign-in of people at an issuer, its provider (OIDC Core 1.0).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    /// Scopes to request, besides `openid`, `profile` and `email`.
    pub scopes: Vec<String>,
    /// Maximum time since the person authenticated at the provider.
    pub max_age: Option<Duration>,
}

/// Permissions of tokens with certain claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Claims and their values, all of which must match, at least one. A value that ends with * matches a prefix. A claim
    /// with a list matches if the list contains the value.
    #[cfg_attr(feature = "openapi", schemars(extend("minProperties" = 1)))]
    pub claims: BTreeMap<String, String>,
    /// Permissions, as of a token with this role.
    pub role: Role,
    /// Environments of the role report or approve; "*" for all.
    #[serde(default)]
    pub environments: Vec<String>,
    /// Whether reports of the role report create environments that this file does not list.
    #[serde(default)]
    pub create: bool,
    /// Flows of the role attest or approve; "*" for all.
    #[serde(default)]
    pub flows: Vec<String>,
}

/// The claims of a token with a valid signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims(pub Map<String, Value>);

/// Why a token of an issuer is rejected. The messages quote nothing of the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is not a JWT: expected three parts, with JSON objects as header and claims")]
    Malformed,
    /// Larger than a token needs to be.
    #[error("it is too large: expected at most {0} bytes")]
    TooLarge(usize),
    /// An algorithm other than those for public keys that the service accepts.
    #[error("its algorithm is not supported: expected RS256, PS256, ES256 or EdDSA")]
    Algorithm,
    /// The header requires an extension (RFC 7515, section 4.1.11).
    #[error("its header requires extensions (\"crit\"), and none is supported")]
    Extension,
    #[error("its claim \"iss\" is not the URL of an issuer of this organization")]
    UnknownIssuer,
    #[error(
        "the issuer has no key with the key ID and algorithm of the token; new keys of an issuer are in effect within a minute"
    )]
    UnknownKey,
    #[error(
        "the issuer has no key with the key ID and algorithm of the token; its keys are from a file: reload the bootstrap file \
         after a change of that file"
    )]
    UnknownKeyOfFile,
    #[error("its signature is invalid")]
    Signature,
    /// A claim is missing, or has an unexpected type or value.
    #[error("its claim \"{0}\" is missing or invalid: expected {expected}", expected = expected(.0))]
    Claim(&'static str),
    #[error("it is for another audience: expected \"{}\"", Escaped(.0))]
    Audience(String),
    #[error("it has expired")]
    Expired,
    /// Before `nbf` or `iat`.
    #[error("it is not valid yet: compare the clocks of the issuer and of the service")]
    NotYetValid,
    /// An ID token for another sign-in.
    #[error("it is for another sign-in: its claim \"nonce\" differs")]
    Nonce,
    #[error("no rule of the issuer \"{}\" matches its claims", Escaped(.0))]
    NoRule(String),
}

/// The expected value of a claim.
fn expected(claim: &str) -> &'static str {
    match claim {
        "sub" => "1 to 255 bytes without control and invisible characters",
        "azp" => "the client ID",
        "auth_time" => "seconds since 1970, not in the future",
        _ => "seconds since 1970",
    }
}

impl Claims {
    /// A claim, if it is text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Checks issuer, audience and times.
    ///
    /// # Errors
    ///
    /// [`TokenError`] for the first claim that is not as expected.
    pub fn check(&self, issuer: &str, audience: &str, now: Timestamp) -> Result<(), TokenError> {
        if self.text("iss") != Some(issuer) {
            return Err(TokenError::UnknownIssuer);
        }
        if !self.contains("aud", |value| value == audience) {
            return Err(TokenError::Audience(audience.to_owned()));
        }
        let expiry = self.time("exp")?.ok_or(TokenError::Claim("exp"))?;
        if now >= expiry.later(LEEWAY) {
            return Err(TokenError::Expired);
        }
        for start in ["nbf", "iat"] {
            if self.time(start)?.is_some_and(|start| now.later(LEEWAY) < start) {
                return Err(TokenError::NotYetValid);
            }
        }
        Ok(())
    }

    /// The subject, which evidence and logs show.
    ///
    /// # Errors
    ///
    /// [`TokenError::Claim`] if it is missing, too long or contains control or invisible characters.
    pub fn subject(&self) -> Result<&str, TokenError> {
        let is_valid =
            |subject: &&str| (1..=MAX_SUBJECT).contains(&subject.len()) && !subject.contains(needs_escape);
        self.text("sub").filter(is_valid).ok_or(TokenError::Claim("sub"))
    }

    #[must_use]
    pub fn expiry(&self) -> Option<Timestamp> {
        self.time("exp").ok().flatten()
    }

    fn time(&self, name: &'static str) -> Result<Option<Timestamp>, TokenError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let time = value.as_f64().and_then(Timestamp::from_seconds);
        time.map(Some).ok_or(TokenError::Claim(name))
    }

    /// Whether a claim is such a text, or a list that contains one.
    fn contains(&self, name: &str, is_wanted: impl Fn(&str) -> bool) -> bool {
        match self.0.get(name) {
            Some(Value::String(text)) => is_wanted(text),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).any(is_wanted),
            _ => false,
        }
    }
}

impl Issuer {
    /// The first rule that matches.
    #[must_use]
    pub fn rule(&self, claims: &Claims) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(claims))
    }

    /// The rule for a signed-in person. `None` also if a rule names a claim that it did not name at the sign-in: whether
    /// that rule matches is unknown.
    #[must_use]
    pub fn rule_for_person(&self, person: &Person) -> Option<&Rule> {
        let mut names = self.rules.iter().flat_map(|rule| rule.claims.keys());
        if names.all(|name| person.claims.0.contains_key(name)) { self.rule(&person.claims) } else { None }
    }
}

impl Rule {
    /// The environments and flows that the role applies to.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { environments: self.environments.clone(), flows: self.flows.clone() }
    }

    /// Whether a token with these claims has the permissions.
    #[must_use]
    pub fn matches(&self, claims: &Claims) -> bool {
        self.claims.iter().all(|(name, pattern)| {
            claims.contains(name, |value| match pattern.strip_suffix('*') {
                Some(prefix) => value.starts_with(prefix),
                None => value == pattern,
            })
        })
    }
}

/// The claims, for audit log and access review: `ref=refs/heads/main, repository=acme/cart`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claims: Vec<_> = self.claims.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&claims.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        let Value::Object(map) = value else { panic!("{value} is no object") };
        Claims(map)
    }

    #[test]
    fn claims_must_have_the_issuer_the_audience_and_a_valid_time() {
        let now = Timestamp::from_seconds(1_000_000.0).unwrap();
        let valid = json!({"iss": "https://i", "aud": "a", "exp": 1_000_000});
        let other = || TokenError::Audience("a".to_owned());
        for (change, expected) in [
            (json!({}), Ok(())),
            (json!({"aud": ["b", 1, "a"]}), Ok(())),
            (json!({"aud": ["b"]}), Err(other())),
            (json!({"aud": {"a": "a"}}), Err(other())),
            (json!({"aud": null}), Err(other())),
            (json!({"iss": "https://i/"}), Err(TokenError::UnknownIssuer)),
            (json!({"iss": ["https://i"]}), Err(TokenError::UnknownIssuer)),
            (json!({"exp": 999_941}), Ok(())),
            (json!({"exp": 999_940}), Err(TokenError::Expired)),
            (json!({"exp": 999_940.5}), Ok(())),
            (json!({"exp": "1000000"}), Err(TokenError::Claim("exp"))),
            (json!({"exp": null}), Err(TokenError::Claim("exp"))),
            (json!({"exp": 1e300}), Err(TokenError::Claim("exp"))),
            (json!({"exp": -1}), Err(TokenError::Claim("exp"))),
            (json!({"nbf": 1_000_060, "iat": 1_000_060}), Ok(())),
            (json!({"nbf": 1_000_061}), Err(TokenError::NotYetValid)),
            (json!({"iat": 1_000_061}), Err(TokenError::NotYetValid)),
            (json!({"iat": [1]}), Err(TokenError::Claim("iat"))),
        ] {
            let mut changed = claims(valid.clone());
            changed.0.extend(claims(change.clone()).0);
            assert_eq!(changed.check("https://i", "a", now), expected, "{change}");
        }
        assert_eq!(claims(json!({"sub": "a/b:c"})).subject(), Ok("a/b:c"));
        for subject in [json!(null), json!(""), json!(7), json!("a\n"), json!("a".repeat(256))] {
            let expected = Err(TokenError::Claim("sub"));
            assert_eq!(claims(json!({"sub": subject})).subject(), expected, "{subject}");
        }
    }

    fn rule(claims: BTreeMap<String, String>) -> Rule {
        Rule { claims, role: Role::Read, environments: vec![], create: false, flows: vec![] }
    }

    #[test]
    fn rule_matches_text_prefixes_and_lists() {
        let token = claims(json!({
            "sub": "repo:acme/cart", "groups": ["dev", 1, "ops"], "empty": "", "number": 1, "nested": {"a": "b"},
        }));
        for (name, pattern, expected) in [
            ("sub", "repo:acme/cart", true),
            ("sub", "repo:acme/*", true),
            ("sub", "repo:acme/", false),
            ("sub", "repo:acme/cart2*", false),
            ("sub", "*", true),
            ("sub", "*cart", false),
            ("groups", "ops", true),
            ("groups", "de*", true),
            ("groups", "1", false),
            ("empty", "", true),
            ("empty", "*", true),
            ("number", "1", false),
            ("nested", "*", false),
            ("nested.a", "b", false),
            ("missing", "*", false),
        ] {
            let rule = rule([(name.to_owned(), pattern.to_owned())].into());
            assert_eq!(rule.matches(&token), expected, "{name} {pattern}");
        }
        let claims = [("sub", "repo:*"), ("groups", "qa")];
        let rule = rule(claims.map(|(name, pattern)| (name.to_owned(), pattern.to_owned())).into());
        assert!(!rule.matches(&token), "all claims must match");
    }
}
