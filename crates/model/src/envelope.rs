//! Signed envelopes (DSSE 1.0, <https://github.com/secure-systems-lab/dsse>): a payload, its type and signatures.
//! `runtime::signing` signs and verifies.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};

/// The type of a payload that is an in-toto statement.
pub const STATEMENT: &str = "application/vnd.in-toto+json";

/// The type of a statement itself (<https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md>).
pub const STATEMENT_V1: &str = "https://in-toto.io/Statement/v1";

/// The type of the predicate about what ran in an environment (docs/guides/reading.md).
pub const RUNNING_ARTIFACTS: &str = "https://github.com/supercargo/supercargo/running-artifacts/v1";

/// A signed payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The payload in base64.
    payload: String,
    /// The type of the payload.
    pub payload_type: String,
    /// The signatures.
    pub signatures: Vec<EnvelopeSignature>,
}

/// A signature of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvelopeSignature {
    /// A hint which key made it: here the SHA-256 of the public key in DER.
    #[serde(default)]
    pub keyid: String,
    /// The signature in base64.
    sig: String,
}

impl Envelope {
    /// Reads an envelope, alone or in a Sigstore bundle.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if the file has none.
    pub fn read(file: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Bundle {
            dsse_envelope: Option<Envelope>,
        }
        match serde_json::from_slice(file)? {
            Bundle { dsse_envelope: Some(envelope) } => Ok(envelope),
            Bundle { dsse_envelope: None } => serde_json::from_slice(file),
        }
    }

    /// A payload with a signature of its [`signed_bytes`].
    #[must_use]
    pub fn new(payload_type: &str, payload: &[u8], keyid: String, signature: &[u8]) -> Self {
        let signature = EnvelopeSignature { keyid, sig: STANDARD.encode(signature) };
        let payload = STANDARD.encode(payload);
        Self { payload, payload_type: payload_type.to_owned(), signatures: vec![signature] }
    }

    /// The payload; `None` if it is not base64.
    #[must_use]
    pub fn payload(&self) -> Option<Vec<u8>> {
        decode(&self.payload)
    }

    /// The signatures, without those that are not base64.
    pub fn signatures(&self) -> impl Iterator<Item = Vec<u8>> {
        self.signatures.iter().filter_map(|signature| decode(&signature.sig))
    }
}

/// The bytes that a signature covers: type and payload with their lengths (DSSE, "pre-authentication encoding").
#[must_use]
pub fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let start = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [start.as_bytes(), payload].concat()
}

/// Either alphabet is allowed.
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_bytes_are_those_of_the_specification() {
        let bytes = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
