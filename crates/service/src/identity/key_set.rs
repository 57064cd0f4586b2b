//! A set of public keys (JSON Web Key Set), parsed for verification.
//!
//! Called by the bootstrap file and after each request to an issuer. Pure.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use model::Fingerprint;
use rules::identity::TokenError;

/// Maximum number of keys of a set. Issuers have a few.
const MAX_KEYS: usize = 100;

/// Maximum number of keys that are tried for a token. Each costs a verification, which the owner of an issuer could multiply
/// with keys of one identifier.
const MAX_TRIED: usize = 4;

/// Maximum number of verified tokens that a set remembers.
const MAX_VERIFIED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
    /// The hashes of tokens that a key has signed: a verification takes longer than the rest of a request.
    verified: Mutex<HashSet<Fingerprint>>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

/// A document without usable keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error("expected a JSON Web Key Set: an object with \"keys\"")]
    Malformed(#[source] serde_json::Error),
    #[error("expected a key for RS256, PS256, ES256 or EdDSA")]
    NoKey,
}

#[derive(Deserialize)]
struct Document {
    /// Keys that the service does not use may have any form.
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Parses a JSON Web Key Set (RFC 7517, section 5). Ignores keys for other purposes and of other types.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let document: Document = serde_json::from_slice(json).map_err(KeySetError::Malformed)?;
        let keys: Vec<Key> = document.keys.into_iter().filter_map(Key::parse).take(MAX_KEYS).collect();
        if keys.is_empty() { Err(KeySetError::NoKey) } else { Ok(Self { keys, verified: Mutex::default() }) }
    }

    /// Whether a set has a private or symmetric key (RFC 7518, section 6).
    pub(crate) fn has_private_keys(json: &[u8]) -> bool {
        let document: Option<Document> = serde_json::from_slice(json).ok();
        let is_private = |key: &serde_json::Value| key.get("d").or(key.get("k")).is_some();
        document.is_some_and(|document| document.keys.iter().any(is_private))
    }

    /// Verifies the token with this hash, unless it was verified before. The hash covers header and signature.
    pub(crate) fn remember(
        &self,
        token: Fingerprint,
        verify: impl FnOnce() -> Result<(), TokenError>,
    ) -> Result<(), TokenError> {
        let verified = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified().contains(&token) {
            return Ok(());
        }
        verify()?;
        let mut verified = verified();
        if verified.len() >= MAX_VERIFIED {
            verified.clear();
        }
        verified.insert(token);
        Ok(())
    }

    /// The keys that may have signed a token. Without a key ID, the set must have a single key for the algorithm.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<&DecodingKey> {
        let fits =
            |key: &&Key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id);
        let found: Vec<_> = self.keys.iter().filter(fits).map(|key| &key.decoding).take(MAX_TRIED).collect();
        if id.is_none() && found.len() > 1 { Vec::new() } else { found }
    }
}

impl Key {
    fn parse(json: serde_json::Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(json).ok()?;
        let common = &jwk.common;
        let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
        let verifies = common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
        let fitting: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &[Algorithm::RS256, Algorithm::PS256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                &[Algorithm::ES256]
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            _ => &[],
        };
        let fits = |algorithm: &Algorithm| {
            common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(*algorithm))
        };
        let algorithms: Vec<_> = fitting.iter().copied().filter(fits).collect();
        if algorithms.is_empty() || !signs || !verifies {
            return None;
        }
        Some(Self { id: common.key_id.clone(), algorithms, decoding: DecodingKey::from_jwk(&jwk).ok()? })
    }
}
