//! Verifies Sigstore bundles, and DSSE envelopes with in-toto statements, without network.
//!
//! Called by the service before it records signed evidence. Pure, except that `sigstore-verify` also compares the times of logs
//! with the clock of the system. Nothing of a file is believed before its signature is verified and its subject is the
//! artifact. What a certificate says of builder and source precedes the statement: anybody who may sign can state anything.

mod signature;
mod statement;

pub use signature::{InvalidTrust, check};

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{Bundle, DsseEnvelope, SignatureContent};

use crate::signature::Signature;
use crate::statement::{Claims, Statement, StatementError};
use model::envelope::STATEMENT;
use model::escape::{Escaped, needs_escape, shortened};
use model::{EvidenceKind, Fingerprint, SignedEvidence, Timestamp};
use rules::trust::Trust;

/// Tolerated difference between the clocks of a log or timestamp authority and of the service.
const LEEWAY: Duration = Duration::from_mins(1);

/// Maximum number of log entries, of timestamps and of certificates, each of which takes time to verify.
const MAX_ITEMS: usize = 8;

/// Maximum length of a recorded text, in bytes.
const MAX_TEXT: usize = 1024;

/// Maximum length of a quoted text or error, in characters.
const MAX_SHOWN: usize = 300;

/// A signature that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub kind: EvidenceKind,
    /// Whether it passes; `None` if the statement has no verdict that is known.
    pub passes: Option<bool>,
    pub evidence: SignedEvidence,
}

/// Why a file is no evidence for the artifact.
#[derive(Debug, thiserror::Error)]
pub enum Rejected {
    #[error("it is neither a Sigstore bundle nor a DSSE envelope in JSON: {0}")]
    Format(Shown),
    #[error("it has {0} {1}: expected at most {MAX_ITEMS}")]
    TooMany(usize, &'static str),
    #[error("it is signed with a certificate, and the organization trusts no identities")]
    NoIdentities,
    #[error("it is signed with a key, and the organization trusts no keys")]
    NoKeys,
    /// For each entry of `trust`, why it does not trust the signature.
    #[error("its signature is not trusted: {0}")]
    NotTrusted(String),
    #[error("the payload of its envelope has the type \"{0}\": expected \"{STATEMENT}\"")]
    PayloadType(Shown),
    #[error(transparent)]
    Statement(#[from] StatementError),
    #[error("its {0} is unclear: expected at most {MAX_TEXT} bytes without control or invisible characters")]
    Text(&'static str),
    #[error("it was signed at {0}, which is in the future")]
    Future(Timestamp),
}

/// A text of the file or of an error in a message.
#[derive(Debug)]
pub struct Shown(String);

impl Shown {
    fn new(text: impl fmt::Display) -> Self {
        Self(shortened(&text.to_string(), MAX_SHOWN))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}

/// What is signed, and the material to verify it.
enum File {
    Bundle(Box<Bundle>),
    /// An envelope without a bundle: signed with a key, not in a log.
    Envelope(DsseEnvelope),
}

impl File {
    fn parse(file: &[u8]) -> Result<Self, Rejected> {
        #[derive(Deserialize)]
        struct Shape {
            #[serde(rename = "payloadType")]
            payload_type: Option<IgnoredAny>,
        }
        let invalid = |error: serde_json::Error| Rejected::Format(Shown::new(error));
        let Shape { payload_type } = serde_json::from_slice(file).map_err(invalid)?;
        if payload_type.is_some() {
            return serde_json::from_slice(file).map(Self::Envelope).map_err(invalid);
        }
        let bundle: Bundle = serde_json::from_slice(file).map_err(invalid)?;
        let material = &bundle.verification_material;
        let certificates = match &material.content {
            VerificationMaterialContent::X509CertificateChain { certificates } => certificates.len(),
            _ => 1,
        };
        let timestamps = material.timestamp_verification_data.rfc3161_timestamps.len();
        for (number, what) in [
            (material.tlog_entries.len(), "log entries"),
            (timestamps, "timestamps"),
            (certificates, "certificates"),
        ] {
            if number > MAX_ITEMS {
                return Err(Rejected::TooMany(number, what));
            }
        }
        Ok(Self::Bundle(Box::new(bundle)))
    }

    fn envelope(&self) -> Option<&DsseEnvelope> {
        match self {
            Self::Envelope(envelope) => Some(envelope),
            Self::Bundle(bundle) => match &bundle.content {
                SignatureContent::DsseEnvelope(envelope) => Some(envelope),
                _ => None,
            },
        }
    }
}

/// Verifies a file as evidence for an artifact, with the first entry that trusts its signature.
///
/// # Errors
///
/// [`Rejected`] unless everything about it is clear.
pub fn verify(
    file: &[u8],
    artifact: Fingerprint,
    trusted: &[Trust],
    now: Timestamp,
) -> Result<Verified, Rejected> {
    let file = File::parse(file)?;
    if let Some(envelope) = file.envelope().filter(|envelope| envelope.payload_type != STATEMENT) {
        return Err(Rejected::PayloadType(Shown::new(&envelope.payload_type)));
    }
    let signature = Signature::verify(&file, artifact, trusted)?;
    if let Some(at) = signature.signed_at.filter(|at| *at > now.later(LEEWAY)) {
        return Err(Rejected::Future(at));
    }
    let statement = file.envelope().map(|envelope| Statement::parse(envelope.payload.as_bytes(), artifact));
    let statement = statement.transpose()?;
    let kind = statement.as_ref().map_or(EvidenceKind::Signature, Statement::kind);
    let stated = statement.as_ref().map(Statement::claims).unwrap_or_default();
    // A commit belongs to its repository: both are from the same place.
    let Claims { source, commit, .. } =
        if signature.claims.source.is_some() { signature.claims.clone() } else { stated.clone() };
    let evidence = SignedEvidence {
        trust: signature.trust,
        issuer: signature.issuer,
        subject: signature.subject,
        key: signature.key,
        predicate_type: statement.as_ref().map(|statement| statement.predicate_type.clone()),
        builder: signature.claims.builder.or(stated.builder),
        source,
        commit,
        signed_at: signature.signed_at,
    };
    let texts = [
        ("predicate type", &evidence.predicate_type),
        ("signer", &evidence.subject),
        ("builder", &evidence.builder),
        ("source", &evidence.source),
    ];
    let is_unclear = |text: &String| text.is_empty() || text.len() > MAX_TEXT || text.contains(needs_escape);
    let unclear = texts.into_iter().find(|(_, text)| text.as_ref().is_some_and(is_unclear));
    if let Some((name, _)) = unclear {
        return Err(Rejected::Text(name));
    }
    let passes = statement.as_ref().map_or(Some(true), Statement::passes);
    Ok(Verified { kind, passes, evidence })
}

#[cfg(test)]
mod tests;
