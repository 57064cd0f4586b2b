//! Signs notes and envelopes with a private key from a file, and verifies them with a public key.
//!
//! Ed25519, and ECDSA on P-256 with SHA-256. Keys and errors contain no key material in their `Debug` and `Display`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

use super::files::{quoted, read_up_to};
use model::Fingerprint;
use model::envelope::{Envelope, signed_bytes};
use model::log::note::{Note, PublicKey, Signature};

pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    EcdsaP256(EcdsaKeyPair),
}

#[derive(Debug, Clone)]
pub struct VerifyingKey(PublicKey);

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("failed to read the key file {}", quoted(.0))]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file contains no private key of a supported kind.
    #[error(
        "invalid signing key in file {}: expected an Ed25519 or ECDSA P-256 key as PKCS #8 in PEM, without a passphrase",
        quoted(.0)
    )]
    Private(PathBuf),
    /// The file contains no public key of a supported kind.
    #[error("invalid public key in file {}: expected an Ed25519 or ECDSA P-256 key in PEM", quoted(.0))]
    Public(PathBuf),
}

#[derive(Debug, thiserror::Error)]
#[error("failed to sign: the system has no random bytes")]
pub struct SigningError;

/// Maximum size of a key file, in bytes.
const MAX_KEY_BYTES: u64 = 64 * 1024;

/// DER of a `SubjectPublicKeyInfo` before the key (RFC 8410; RFC 5480 with the curve secp256r1).
const ED25519_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const P256_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Length of an uncompressed point on P-256, in bytes.
const P256_POINT: usize = 65;

/// A new Ed25519 key in PEM: private and public.
///
/// # Errors
///
/// [`SigningError`] if the system provides no random bytes.
pub fn generate() -> Result<(String, String), SigningError> {
    let pair = Ed25519KeyPair::generate().map_err(|_| SigningError)?;
    let private = pair.to_pkcs8v1().map_err(|_| SigningError)?;
    let public = [ED25519_PREFIX, pair.public_key().as_ref()].concat();
    let pem = |kind: &str, der: &[u8]| {
        format!("-----BEGIN {kind} KEY-----\n{}\n-----END {kind} KEY-----\n", STANDARD.encode(der))
    };
    Ok((pem("PRIVATE", private.as_ref()), pem("PUBLIC", &public)))
}

impl SigningKey {
    /// Reads a private key from a PEM file. Blocks.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the file is unreadable or contains no supported key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let pem =
            read_up_to(MAX_KEY_BYTES, path).map_err(|error| KeyError::Unreadable(path.to_owned(), error))?;
        Self::parse(&pem).ok_or_else(|| KeyError::Private(path.to_owned()))
    }

    fn parse(pem: &[u8]) -> Option<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let key = key.secret_pkcs8_der();
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key) {
            let public = PublicKey::Ed25519(pair.public_key().as_ref().try_into().ok()?);
            return Some(Self { pair: Pair::Ed25519(pair), public });
        }
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key).ok()?;
        let public = PublicKey::EcdsaP256([P256_PREFIX, pair.public_key().as_ref()].concat());
        Some(Self { pair: Pair::EcdsaP256(pair), public })
    }

    /// Signs a text under a name.
    ///
    /// # Errors
    ///
    /// [`SigningError`] if the system provides no random bytes for ECDSA.
    pub fn sign(&self, name: &str, text: String) -> Result<Note, SigningError> {
        let bytes = self.signature(text.as_bytes())?;
        let signature = Signature { name: name.to_owned(), key_id: self.public.id(name), bytes };
        Ok(Note { text, signatures: vec![signature] })
    }

    /// Signs a payload. The identifier of the key is the SHA-256 of the public key in DER.
    ///
    /// # Errors
    ///
    /// [`SigningError`] if the system provides no random bytes for ECDSA.
    pub fn sign_envelope(&self, payload_type: &str, payload: &[u8]) -> Result<Envelope, SigningError> {
        let signature = self.signature(&signed_bytes(payload_type, payload))?;
        let der = match &self.public {
            PublicKey::Ed25519(key) => [ED25519_PREFIX, key].concat(),
            PublicKey::EcdsaP256(der) => der.clone(),
        };
        let keyid = Fingerprint::from_content(&der).to_string();
        Ok(Envelope::new(payload_type, payload, keyid, &signature))
    }

    fn signature(&self, bytes: &[u8]) -> Result<Vec<u8>, SigningError> {
        Ok(match &self.pair {
            Pair::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::EcdsaP256(pair) => {
                pair.sign(&SystemRandom::new(), bytes).map_err(|_| SigningError)?.as_ref().to_vec()
            }
        })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").finish_non_exhaustive()
    }
}

impl VerifyingKey {
    /// Reads a public key from a PEM file. Blocks.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the file is unreadable or contains no supported key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let pem =
            read_up_to(MAX_KEY_BYTES, path).map_err(|error| KeyError::Unreadable(path.to_owned(), error))?;
        Self::parse(&pem).ok_or_else(|| KeyError::Public(path.to_owned()))
    }

    fn parse(pem: &[u8]) -> Option<Self> {
        let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        if let Some(raw) = key.strip_prefix(ED25519_PREFIX) {
            return Some(Self(PublicKey::Ed25519(raw.try_into().ok()?)));
        }
        let point = key.strip_prefix(P256_PREFIX)?;
        (point.len() == P256_POINT).then(|| Self(PublicKey::EcdsaP256(key.to_vec())))
    }

    /// Whether the key signed the note, and each of its signatures is valid.
    #[must_use]
    pub fn verifies(&self, note: &Note) -> bool {
        let mut signatures = note.signatures_by(&self.0).peekable();
        signatures.peek().is_some()
            && signatures.all(|signature| self.is_valid(note.text.as_bytes(), &signature.bytes))
    }

    /// The payload, if the key signed it. The identifiers of keys are not considered.
    #[must_use]
    pub fn verified_payload(&self, envelope: &Envelope) -> Option<Vec<u8>> {
        let payload = envelope.payload()?;
        let signed = signed_bytes(&envelope.payload_type, &payload);
        envelope.signatures().any(|signature| self.is_valid(&signed, &signature)).then_some(payload)
    }

    fn is_valid(&self, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.0 {
            PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(signed, signature),
            PublicKey::EcdsaP256(key) => {
                let point = key.strip_prefix(P256_PREFIX).unwrap_or_default();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(signed, signature)
            }
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with OpenSSL: `openssl genpkey -algorithm …` and `openssl pkey -pubout`.
    const ED25519_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINz8b6hf6IYXQk11SSsYLx+Ugr+SmmpbchAaWWBiYW8F\n-----END PRIVATE KEY-----\n";
    const ED25519_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAhbdtikCBkBmkaAkB/WslPXu0h5uYIBequ7LkINxWSnE=\n-----END PUBLIC KEY-----\n";
    const P256_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+48Bu32Hh+Cl94Ah\nQMWz/OPemgg2N3Mzh6keTs7vBKehRANCAATD16ycWlg7A5PyniTWeqm/fz3ymdsE\nF9r2/4xB2HFpTp31e6Z0BdM7uliBtltIqWQ1qfy1L8zHAcWbyktK2UtS\n-----END PRIVATE KEY-----\n";
    const P256_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEw9esnFpYOwOT8p4k1nqpv3898pnb\nBBfa9v+MQdhxaU6d9XumdAXTO7pYgbZbSKlkNan8tS/MxwHFm8pLStlLUg==\n-----END PUBLIC KEY-----\n";

    const TEXT: &str = "example.com/acme\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";

    /// Signed with the same keys and the Python package `cryptography`.
    const ED25519_NOTE: &str = "example.com/acme\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\u{2014} example.com/acme BhS3GKY4KlLYhn/+dBd9qBag/b7Cuh6gpUIjGYgjP1ykc1lO3LrsH/Esi9ogwmkzIFx/EQcJlYSTDS4dH6JIFeSw2gA=\n";
    const P256_NOTE: &str = "example.com/acme\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\u{2014} example.com/acme 6TedtTBFAiEAqJzx4+oMp3274UJ9RZ4aV2NGZCZuqM0UFp/phQS1KucCIF6OtA5GItb9Kb3RZ7dNeKVCIjF/nP9hsuoGJAqV6QjY\n";

    #[test]
    fn note_of_another_implementation_is_verified() {
        for (public, note) in [(ED25519_PUBLIC, ED25519_NOTE), (P256_PUBLIC, P256_NOTE)] {
            let key = VerifyingKey::parse(public.as_bytes()).unwrap();
            let note = Note::parse(note).unwrap();
            assert!(key.verifies(&note));
            let changed = Note { text: TEXT.replace('7', "8"), ..note.clone() };
            assert!(!key.verifies(&changed));
            let unsigned = Note { signatures: Vec::new(), ..note };
            assert!(!key.verifies(&unsigned));
        }
    }

    #[test]
    fn signature_is_valid_for_its_own_key_only() {
        let [ed25519, p256] =
            [ED25519_PUBLIC, P256_PUBLIC].map(|key| VerifyingKey::parse(key.as_bytes()).unwrap());
        for (private, own, other) in [(ED25519_PRIVATE, &ed25519, &p256), (P256_PRIVATE, &p256, &ed25519)] {
            let key = SigningKey::parse(private.as_bytes()).unwrap();
            let note = key.sign("example.com/acme", TEXT.to_owned()).unwrap();
            let read = Note::parse(&note.format()).unwrap();
            assert!(own.verifies(&read) && !other.verifies(&read));
            assert_eq!(format!("{key:?}"), "SigningKey { .. }");
        }
        // Ed25519 signatures are deterministic.
        let key = SigningKey::parse(ED25519_PRIVATE.as_bytes()).unwrap();
        assert_eq!(key.sign("example.com/acme", TEXT.to_owned()).unwrap().format(), ED25519_NOTE);
    }

    #[test]
    fn other_files_are_rejected_without_their_content() {
        let rsa = "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----\n";
        for private in ["", "secret", rsa, ED25519_PUBLIC] {
            assert!(SigningKey::parse(private.as_bytes()).is_none());
        }
        for public in ["", "secret", ED25519_PRIVATE] {
            assert!(VerifyingKey::parse(public.as_bytes()).is_none());
        }
        let error = SigningKey::read(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.starts_with("invalid signing key in file \"/dev/null\": expected"), "{error}");
    }
}
