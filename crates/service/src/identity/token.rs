//! Verification of a token: its form, its header and its signature.
//!
//! Only keys of the issuer are used. The header's `jwk`, `jku`, `x5u` and `x5c` are ignored. Pure.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::identity::key_set::KeySet;
use model::Fingerprint;
use rules::identity::{Claims, TokenError};

/// Maximum size of a token, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// The accepted algorithms, all for public keys.
const ALGORITHMS: [Algorithm; 4] = [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

/// A token that may be valid.
pub(crate) struct Token<'a> {
    text: &'a str,
    algorithm: Algorithm,
    key_id: Option<String>,
}

/// The members of the header that are used.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// Whether a bearer token is a JWT, and not a static token: three parts, the first of which is an object with `alg`.
pub(crate) fn is_jwt(token: &str) -> bool {
    header(token).is_some()
}

fn header(token: &str) -> Option<Header> {
    let mut parts = token.split('.');
    let (header, _, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()
}

impl<'a> Token<'a> {
    /// Reads the header.
    pub(crate) fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > MAX_BYTES {
            return Err(TokenError::TooLarge(MAX_BYTES));
        }
        let header = header(text).ok_or(TokenError::Malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::Extension);
        }
        match header.alg.parse::<Algorithm>() {
            Ok(algorithm) if ALGORITHMS.contains(&algorithm) => {
                Ok(Self { text, algorithm, key_id: header.kid })
            }
            _ => Err(TokenError::Algorithm),
        }
    }

    /// Verifies the signature. The caller checks the claims.
    pub(crate) fn verify(&self, keys: &KeySet) -> Result<Claims, TokenError> {
        let hash = Fingerprint::from_content(self.text.as_bytes());
        keys.remember(hash, || self.verify_signature(keys))?;
        claims(self.text).map(Claims).ok_or(TokenError::Malformed)
    }

    fn verify_signature(&self, keys: &KeySet) -> Result<(), TokenError> {
        let (signed, signature) = self.text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let found = keys.find(self.key_id.as_deref(), self.algorithm);
        let fits = |key: &&DecodingKey| {
            matches!(crypto::verify(signature, signed.as_bytes(), key, self.algorithm), Ok(true))
        };
        match found.iter().any(fits) {
            true => Ok(()),
            false if found.is_empty() => Err(TokenError::UnknownKey),
            false => Err(TokenError::Signature),
        }
    }
}

/// The claim `iss`, which is not verified yet. `None` also for a static token in the form of a JWT.
pub(crate) fn unverified_issuer(token: &str) -> Option<String> {
    claims(token)?.get("iss")?.as_str().map(str::to_owned)
}

fn claims(token: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?).ok()
}
