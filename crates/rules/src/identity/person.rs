//! A person who signed in at an issuer.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Claims, Issuer, LEEWAY, TokenError};
use model::Timestamp;
use model::escape::needs_escape;

/// Maximum length of the name of a person, in characters. Longer ones are cut.
const MAX_NAME: usize = 100;

/// Maximum length of a mail address, in bytes (RFC 5321, section 4.5.3.1.3). Longer ones are ignored.
const MAX_EMAIL: usize = 254;

/// A person who signed in. The session has nothing else of the ID token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Person {
    pub organization: String,
    /// Name of the issuer.
    pub issuer: String,
    /// URL of the issuer.
    pub url: String,
    /// Client ID of the service at the issuer.
    pub client_id: String,
    /// The subject, which identifies the person.
    pub subject: String,
    /// Their name, which people may choose themselves.
    pub name: Option<String>,
    /// Their address, if the issuer verified it.
    pub email: Option<String>,
    /// The claims that the issuer's rules name; `null` for those that the ID token lacks.
    pub claims: Claims,
    /// When the identity ends, and the session with it.
    pub expires_at: Timestamp,
}

impl Person {
    /// The person of an ID token with a valid signature, which must be the response to the sign-in with this nonce.
    ///
    /// # Errors
    ///
    /// [`TokenError`] for the first claim that is not as expected (OIDC Core 1.0, section 3.1.3.7).
    pub fn from_id_token(
        organization: &str,
        issuer: &Issuer,
        claims: &Claims,
        nonce: &str,
        now: Timestamp,
    ) -> Result<Self, TokenError> {
        claims.check(&issuer.url, &issuer.audience, now)?;
        if claims.text("nonce") != Some(nonce) {
            return Err(TokenError::Nonce);
        }
        let has_others = claims.0.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
        if (has_others || claims.0.contains_key("azp")) && claims.text("azp") != Some(&issuer.audience) {
            return Err(TokenError::Claim("azp"));
        }
        let mut expires_at = claims.expiry().ok_or(TokenError::Claim("exp"))?;
        if let Some(max_age) = issuer.sign_in.as_ref().and_then(|sign_in| sign_in.max_age) {
            let at = claims.time("auth_time")?.ok_or(TokenError::Claim("auth_time"))?;
            if now.later(LEEWAY) < at {
                return Err(TokenError::Claim("auth_time"));
            }
            expires_at = expires_at.min(at.later(max_age));
        }
        if expires_at <= now {
            return Err(TokenError::Expired);
        }
        let email =
            claims.text("email").filter(|_| claims.0.get("email_verified") == Some(&Value::Bool(true)));
        let is_valid = |c: char| !needs_escape(c) && !c.is_whitespace() && !"<>".contains(c);
        let email =
            email.filter(|mail| mail.len() <= MAX_EMAIL && mail.contains('@') && mail.chars().all(is_valid));
        let name = claims.text("name").or(claims.text("email").filter(|_| email.is_none()));
        let name: Option<String> = name.map(|name| {
            name.trim().chars().filter(|c| !needs_escape(*c) && !"<>()".contains(*c)).take(MAX_NAME).collect()
        });
        let named = issuer.rules.iter().flat_map(|rule| rule.claims.keys());
        let stored = named.map(|name| (name.clone(), claims.0.get(name).cloned().unwrap_or_default()));
        Ok(Self {
            organization: organization.to_owned(),
            issuer: issuer.name.clone(),
            url: issuer.url.clone(),
            client_id: issuer.audience.clone(),
            subject: claims.subject()?.to_owned(),
            name: name.filter(|name| !name.is_empty()),
            email: email.map(str::to_owned),
            claims: Claims(stored.collect()),
            expires_at,
        })
    }

    /// The name that logs and evidence record, and that people cannot choose.
    #[must_use]
    pub fn caller(&self) -> String {
        format!("{}/{}", self.issuer, self.subject)
    }
}

/// The person as approvals show them: `sso/8f2 (Kim Doe) <kim@example.com>`. Policies compare name and address with the authors
/// of commits.
impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.caller())?;
        self.name.iter().try_for_each(|name| write!(f, " ({name})"))?;
        self.email.iter().try_for_each(|email| write!(f, " <{email}>"))
    }
}
