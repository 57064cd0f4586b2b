//! Verifies Sigstore bundles, and DSSE envelopes with in-toto statements, without network.
//!
//! Called by the service before it records signed evidence. Pure, except that `sigstore-verify` also compares the times of logs
//! with the clock of the system. Nothing of a file is believed before its signature is verified and its subject is the
//! artifact. What a certificate says of builder and source precedes the statement: anybody who may sign can state anything.

mod signature;
mod statement;

pub use signature::{InvalidTrust, check_key, check_root};

use std::borrow::Cow;
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
use model::json::values;
use model::{EvidenceKind, Fingerprint, SignedEvidence, Timestamp};
use rules::trust::Trust;

/// Tolerated difference between the clocks of a log or timestamp authority and of the service.
const LEEWAY: Duration = Duration::from_mins(1);

/// Maximum size of a file without the payload of its envelope, in bytes. Bundles have up to 12 KB. 7 MB of log entries would
/// take 4 s of CPU time, of signatures of a checkpoint 19 s, of other values 300 MB of memory.
pub const MAX_MATERIAL: usize = 64 * 1024;

/// Maximum number of JSON values in a payload. Sigstore's library parses all of them before it verifies a signature: 7 MB of
/// small objects would take 660 MB.
pub const MAX_VALUES: usize = 2_000_000;

/// Maximum length of a recorded text, in bytes.
const MAX_TEXT: usize = 1024;

/// Maximum length of what the entries of trust say, in characters.
const MAX_PROBLEMS: usize = 2_000;

/// Maximum length of a quoted text or error, in characters.
const MAX_SHOWN: usize = 300;

/// A signature that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub kind: EvidenceKind,
    /// Whether it passes; `None` if the statement has no verdict that is known.
    pub passes: Option<bool>,
    pub evidence: SignedEvidence,
    /// The bill of materials that is the statement's predicate.
    pub bill: Option<String>,
}

/// Why a file is no evidence for the artifact.
#[derive(Debug, thiserror::Error)]
pub enum Rejected {
    #[error("it is neither a Sigstore bundle nor a DSSE envelope in JSON: {0}")]
    Format(Shown),
    #[error("it has {0} bytes beside its payload: expected at most {MAX_MATERIAL}")]
    Material(usize),
    #[error("its payload has more than {MAX_VALUES} JSON values")]
    Values,
    #[error("it has {0} certificates: expected only that of its signer")]
    Certificates(usize),
    #[error("an entry of a log in it has no proof of inclusion")]
    NoProof,
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

/// The keys of a file that select how it is read. Takes no more memory than the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    payload_type: Option<IgnoredAny>,
    #[serde(borrow)]
    payload: Option<Cow<'a, str>>,
    #[serde(borrow)]
    dsse_envelope: Option<Payload<'a>>,
    message_signature: Option<IgnoredAny>,
    verification_material: Option<Signers>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    payload: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signers {
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
    public_key: Option<IgnoredAny>,
}

impl Shape<'_> {
    /// Sigstore's library takes the first of several signers or contents.
    fn is_clear(&self) -> bool {
        let contents =
            [self.payload_type.is_some(), self.dsse_envelope.is_some(), self.message_signature.is_some()];
        let signers = self.verification_material.as_ref().map(|signers| {
            [&signers.certificate, &signers.x509_certificate_chain, &signers.public_key].map(Option::is_some)
        });
        let is_single = |given: [bool; 3]| given.into_iter().filter(|is_given| *is_given).count() == 1;
        is_single(contents) && signers.is_none_or(is_single)
    }
}

impl File {
    fn parse(file: &[u8]) -> Result<Self, Rejected> {
        let invalid = |error: serde_json::Error| Rejected::Format(Shown::new(error));
        let shape: Shape<'_> = serde_json::from_slice(file).map_err(invalid)?;
        if !shape.is_clear() {
            return Err(Rejected::Format(Shown::new("expected one signature and one kind of signer")));
        }
        let in_bundle = shape.dsse_envelope.as_ref().map(|envelope| &envelope.payload);
        let payload = in_bundle.or(shape.payload.as_ref()).map_or(0, |payload| payload.len());
        let material = file.len() - payload;
        if material > MAX_MATERIAL {
            return Err(Rejected::Material(material));
        }
        if shape.payload_type.is_some() {
            return serde_json::from_slice(file).map(Self::Envelope).map_err(invalid);
        }
        let bundle: Bundle = serde_json::from_slice(file).map_err(invalid)?;
        let material = &bundle.verification_material;
        // Of a longer chain, the library ignores what it does not need, such as a root.
        if let VerificationMaterialContent::X509CertificateChain { certificates } = &material.content
            && certificates.len() != 1
        {
            return Err(Rejected::Certificates(certificates.len()));
        }
        // The library takes the log's promise instead if the bundle calls itself version 0.1.
        if material.tlog_entries.iter().any(|entry| entry.inclusion_proof.is_none()) {
            return Err(Rejected::NoProof);
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
    if let Some(envelope) = file.envelope() {
        if envelope.payload_type != STATEMENT {
            return Err(Rejected::PayloadType(Shown::new(&envelope.payload_type)));
        }
        if values(envelope.payload.as_bytes()) > MAX_VALUES {
            return Err(Rejected::Values);
        }
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
    let bill = statement.as_ref().and_then(Statement::bill);
    Ok(Verified { kind, passes, evidence, bill })
}

#[cfg(test)]
mod tests;
