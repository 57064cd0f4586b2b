//! A set of public keys (JSON Web Key Set), parsed for verification.
//!
//! Called by the bootstrap file and after each request to an issuer. Pure.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use model::Fingerprint;
use model::escape::{Escaped, shortened};
use rules::identity::TokenError;

/// Maximum number of keys of a set. Issuers have a few.
const MAX_KEYS: usize = 100;

/// Maximum number of keys that are tried for a token. Each costs a verification, which the owner of an issuer could multiply
/// with keys of one identifier.
const MAX_TRIED: usize = 4;

/// Maximum number of unusable keys that are named, and of characters of their IDs: the owner of an issuer chooses both.
const MAX_PROBLEMS: usize = 5;
const MAX_ID: usize = 100;

/// Maximum number of verified tokens that a set remembers.
const MAX_VERIFIED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
    problems: Vec<KeyProblem>,
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
    NoKey(#[source] Option<KeyProblem>),
}

/// Why a key that is meant to verify tokens cannot do so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ignoring key \"{}\": {why}", Escaped(&shortened(id.as_deref().unwrap_or_default(), MAX_ID)))]
pub(crate) struct KeyProblem {
    id: Option<String>,
    why: InvalidKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum InvalidKey {
    #[error("\"{0}\" is not base64")]
    Base64(&'static str),
    #[error("expected a modulus of 2048 to 8192 bits, got {0}")]
    Modulus(usize),
    #[error("\"e\" is zero")]
    Exponent,
    #[error("expected \"{0}\" with 32 bytes")]
    Length(&'static str),
}

#[derive(Deserialize)]
struct Document {
    /// Keys that the service does not use may have any form.
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Parses a JSON Web Key Set (RFC 7517, section 5). Ignores keys for other purposes and of other types.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let (mut keys, mut problems) = (Vec::new(), Vec::new());
        for key in document(json).map_err(KeySetError::Malformed)?.keys {
            match Key::parse(key) {
                Ok(key) => keys.extend(key),
                Err(problem) => problems.push(problem),
            }
        }
        keys.truncate(MAX_KEYS);
        problems.truncate(MAX_PROBLEMS);
        if keys.is_empty() {
            return Err(KeySetError::NoKey(problems.into_iter().next()));
        }
        Ok(Self { keys, problems, verified: Mutex::default() })
    }

    /// The keys that cannot verify tokens although they are meant to.
    pub(crate) fn problems(&self) -> &[KeyProblem] {
        &self.problems
    }

    /// Whether a set has a private or symmetric key (RFC 7518, section 6).
    pub(crate) fn has_private_keys(json: &[u8]) -> bool {
        let is_private = |key: &serde_json::Value| key.get("d").or(key.get("k")).is_some();
        document(json).is_ok_and(|document| document.keys.iter().any(is_private))
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

fn document(json: &[u8]) -> Result<Document, serde_json::Error> {
    serde_json::from_slice(without_mark(json))
}

/// JSON without a byte-order mark, which parsers may ignore (RFC 8259, section 8.1).
pub(crate) fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json)
}

impl Key {
    /// `None` for a key for another purpose or of another type.
    fn parse(json: serde_json::Value) -> Result<Option<Self>, KeyProblem> {
        let Ok(jwk) = serde_json::from_value::<Jwk>(json) else { return Ok(None) };
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
            return Ok(None);
        }
        match decoding_key(&jwk.algorithm) {
            Ok(decoding) => {
                Ok(decoding.map(|decoding| Self { id: common.key_id.clone(), algorithms, decoding }))
            }
            Err(why) => Err(KeyProblem { id: common.key_id.clone(), why }),
        }
    }
}

/// The key of a type that the service uses. Its numbers may have any form that issuers use for them.
fn decoding_key(parameters: &AlgorithmParameters) -> Result<Option<DecodingKey>, InvalidKey> {
    let key = match parameters {
        AlgorithmParameters::RSA(key) => {
            let (modulus, exponent) = (number("n", &key.n)?, number("e", &key.e)?);
            let unused = modulus.first().map_or(0, |first| first.leading_zeros() as usize);
            let bits = modulus.len() * 8 - unused;
            if !(2048..=8192).contains(&bits) {
                return Err(InvalidKey::Modulus(bits));
            }
            if exponent.is_empty() {
                return Err(InvalidKey::Exponent);
            }
            DecodingKey::from_rsa_raw_components(&modulus, &exponent)
        }
        AlgorithmParameters::EllipticCurve(key) => {
            let coordinate = |name, text| {
                let number = number(name, text)?;
                let zeros = 32_usize.checked_sub(number.len()).ok_or(InvalidKey::Length(name))?;
                Ok(URL_SAFE_NO_PAD.encode([vec![0; zeros], number].concat()))
            };
            let (x, y) = (coordinate("x", &key.x)?, coordinate("y", &key.y)?);
            DecodingKey::from_ec_components(&x, &y).map_err(|_| InvalidKey::Base64("x"))?
        }
        AlgorithmParameters::OctetKeyPair(key) => {
            let point = bytes("x", &key.x)?;
            if point.len() != 32 {
                return Err(InvalidKey::Length("x"));
            }
            let point = URL_SAFE_NO_PAD.encode(point);
            DecodingKey::from_ed_components(&point).map_err(|_| InvalidKey::Base64("x"))?
        }
        _ => return Ok(None),
    };
    Ok(Some(key))
}

/// A big-endian number without leading zero bytes, which some issuers add or omit against RFC 7518.
fn number(name: &'static str, text: &str) -> Result<Vec<u8>, InvalidKey> {
    let bytes = bytes(name, text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Ok(bytes.into_iter().skip(zeros).collect())
}

/// Decodes base64 of either alphabet, with or without padding.
fn bytes(name: &'static str, text: &str) -> Result<Vec<u8>, InvalidKey> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
    URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidKey::Base64(name))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::*;

    fn problem(key: &Value) -> Option<String> {
        match KeySet::parse(json!({"keys": [key]}).to_string().as_bytes()) {
            Ok(set) => set.problems().first().map(ToString::to_string),
            Err(KeySetError::NoKey(problem)) => Some(problem.map_or_else(String::new, |it| it.to_string())),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn numbers_of_a_key_are_read_in_all_forms_that_issuers_write() {
        let modulus = [vec![0xfb; 255], vec![0xff]].concat();
        let padded = [vec![0], modulus.clone()].concat();
        for modulus in [
            URL_SAFE_NO_PAD.encode(&modulus),
            URL_SAFE_NO_PAD.encode(&padded),
            STANDARD.encode(&modulus),
            STANDARD.encode(&padded),
            format!("{}==", URL_SAFE_NO_PAD.encode(&modulus)),
            STANDARD.encode(&modulus).replace("v7+", "v7+\n"),
        ] {
            for exponent in ["AQAB", "AAEAAQ", "AAEAAQ=="] {
                let key = json!({"kty": "RSA", "kid": "k", "n": modulus, "e": exponent});
                assert_eq!(problem(&key), None, "{modulus} {exponent}");
            }
        }
        for coordinate in [vec![1; 32], vec![1; 31], [vec![0], vec![1; 32]].concat()] {
            let coordinate = URL_SAFE_NO_PAD.encode(coordinate);
            let key = json!({"kty": "EC", "crv": "P-256", "x": coordinate, "y": coordinate});
            assert_eq!(problem(&key), None, "{coordinate}");
        }
        assert!(
            KeySet::parse(b"\xef\xbb\xbf{\"keys\": []}")
                .is_err_and(|error| matches!(error, KeySetError::NoKey(None)))
        );
        assert!(KeySet::has_private_keys(b"\xef\xbb\xbf{\"keys\": [{\"d\": \"x\"}]}"));
    }

    #[test]
    fn key_that_cannot_verify_is_named_with_the_reason() {
        let encoded = |length: usize| URL_SAFE_NO_PAD.encode(vec![0xfb; length]);
        let rsa =
            |modulus: &str, exponent: &str| json!({"kty": "RSA", "kid": "k", "n": modulus, "e": exponent});
        for (key, expected) in [
            (rsa("a!", "AQAB"), "ignoring key \"k\": \"n\" is not base64"),
            (
                rsa(&encoded(128), "AQAB"),
                "ignoring key \"k\": expected a modulus of 2048 to 8192 bits, got 1024",
            ),
            (rsa("", "AQAB"), "ignoring key \"k\": expected a modulus of 2048 to 8192 bits, got 0"),
            (rsa(&encoded(256), "AA"), "ignoring key \"k\": \"e\" is zero"),
            (
                json!({"kty": "EC", "crv": "P-256", "x": encoded(33), "y": encoded(32)}),
                "ignoring key \"\": expected \"x\" with 32 bytes",
            ),
            (
                json!({"kty": "OKP", "crv": "Ed25519", "kid": "\n", "x": encoded(31)}),
                "ignoring key \"\\n\": expected \"x\" with 32 bytes",
            ),
            // For another purpose, or of another type.
            (json!({"kty": "RSA", "use": "enc", "n": "!", "e": "AQAB"}), ""),
            (json!({"kty": "EC", "crv": "P-384", "x": "!", "y": "!"}), ""),
            (json!({"kty": "new"}), ""),
        ] {
            assert_eq!(problem(&key).as_deref(), Some(expected), "{key}");
        }
    }
}
