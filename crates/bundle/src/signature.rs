//! Verifies the signature of a file with the trusted roots, keys and identities of an organization.

use std::fmt::Display;

use sigstore_verify::crypto::{KeyAlgorithm, VerificationKey, verify_signature, verify_signature_prehashed};
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{
    Artifact, ArtifactDigest, Bundle, DerPublicKey, DsseEnvelope, HashAlgorithm, Sha256Hash, SignatureContent,
};
use sigstore_verify::{PublicKeyVerificationPolicy, VerificationPolicy, VerificationResult, Verifier};

use crate::statement::{Claims, repository};
use crate::{File, MAX_PROBLEMS, Rejected, Shown};
use model::escape::shortened;
use model::{Fingerprint, Timestamp, is_commit_hash};
use rules::trust::Trust;

/// A valid signature of a trusted signer.
pub(crate) struct Signature {
    /// The entry that trusts it.
    pub(crate) trust: String,
    pub(crate) issuer: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) key: Option<Fingerprint>,
    /// What the certificate says.
    pub(crate) claims: Claims,
    pub(crate) signed_at: Option<Timestamp>,
}

/// An entry of `trust` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTrust {
    #[error("invalid trusted root: {0}")]
    Root(Shown),
    #[error("invalid public key: expected one in PEM: {0}")]
    Key(Shown),
}

/// Checks that a trusted root can be used.
///
/// # Errors
///
/// [`InvalidTrust`] if Sigstore's library cannot read it.
pub fn check_root(root: &str) -> Result<(), InvalidTrust> {
    verifier(root).map(drop)
}

/// Checks that a public key in PEM can be used.
///
/// # Errors
///
/// [`InvalidTrust`] if Sigstore's library cannot read it.
pub fn check_key(pem: &str) -> Result<(), InvalidTrust> {
    public_key(pem).map(drop)
}

/// A verifier, and its root.
fn verifier(root: &str) -> Result<(Verifier, TrustedRoot), InvalidTrust> {
    let root = TrustedRoot::from_json(root).map_err(|error| InvalidTrust::Root(Shown::new(error)))?;
    let verifier = Verifier::new(&root).map_err(|error| InvalidTrust::Root(Shown::new(error)))?;
    Ok((verifier, root))
}

fn public_key(pem: &str) -> Result<DerPublicKey, InvalidTrust> {
    let invalid = |error: &dyn Display| InvalidTrust::Key(Shown::new(error));
    let key = DerPublicKey::from_pem(pem).map_err(|error| invalid(&error))?;
    VerificationKey::from_spki(&key).map_err(|error| invalid(&error))?;
    Ok(key)
}

impl Signature {
    pub(crate) fn verify(file: &File, artifact: Fingerprint, trusted: &[Trust]) -> Result<Self, Rejected> {
        let by_key = match file {
            File::Envelope(_) => true,
            File::Bundle(bundle) => {
                matches!(bundle.verification_material.content, VerificationMaterialContent::PublicKey(_))
            }
        };
        let mut problems = Vec::new();
        for trust in trusted {
            let found = match file {
                _ if by_key => Self::by_keys(file, artifact, trust),
                File::Bundle(bundle) => Self::by_certificate(bundle, artifact, trust),
                File::Envelope(_) => None,
            };
            match found {
                Some(Ok(signature)) => return Ok(signature),
                Some(Err(problem)) => problems.push(format!("{}: {problem}", trust.name)),
                None => {}
            }
        }
        match problems.as_slice() {
            [] if by_key => Err(Rejected::NoKeys),
            [] => Err(Rejected::NoIdentities),
            problems => Err(Rejected::NotTrusted(shortened(&problems.join("; "), MAX_PROBLEMS))),
        }
    }

    /// `None` if no identity is trusted.
    fn by_certificate(bundle: &Bundle, artifact: Fingerprint, trust: &Trust) -> Option<Result<Self, Shown>> {
        if trust.identities.is_empty() {
            return None;
        }
        let verify = || {
            let root = trust.root.as_deref().unwrap_or(SIGSTORE_PRODUCTION_TRUSTED_ROOT);
            let (verifier, root) = verifier(root).map_err(Shown::new)?;
            let mut policy = VerificationPolicy::any_identity();
            // A root without logs, as that of GitHub for private repositories, proves times by its timestamp authorities.
            if root.tlogs.is_empty() {
                policy = policy.skip_tlog_unsafe();
            }
            if root.ctlogs.is_empty() {
                policy = policy.skip_sct();
            }
            let result = verifier.verify(digest(artifact), bundle, &policy).map_err(Shown::new)?;
            let certificate = result.certificate().filter(|_| result.certificate_verified());
            let identity = result.identity().map(|identity| identity.as_str().to_owned());
            let (Some(certificate), Some(issuer), Some(subject)) =
                (certificate, result.issuer().map(str::to_owned), identity)
            else {
                return Err(Shown::new("its certificate names no identity and issuer"));
            };
            if !trust.allows(&issuer, &subject) {
                return Err(Shown::new(format!("no trusted identity is {subject} of {issuer}")));
            }
            let ci = &certificate.ci_claims;
            let source = ci.source_repository_uri.as_deref().and_then(repository);
            let commit = ci.source_repository_digest.clone().filter(|commit| is_commit_hash(commit));
            let claims = Claims {
                builder: ci.build_signer_uri.clone(),
                commit: commit.filter(|_| source.is_some()),
                source,
            };
            Ok(Self {
                trust: trust.name.clone(),
                issuer: Some(issuer),
                subject: Some(subject),
                key: None,
                claims,
                signed_at: signed_at(&result),
            })
        };
        Some(verify())
    }

    /// `None` if no key is trusted.
    fn by_keys(file: &File, artifact: Fingerprint, trust: &Trust) -> Option<Result<Self, Shown>> {
        let mut problem = None;
        for pem in &trust.keys {
            let verify = || {
                let key = public_key(pem).map_err(Shown::new)?;
                let signed_at = match (&trust.root, file) {
                    (Some(root), File::Bundle(bundle)) => signed_at(&logged(bundle, artifact, root, &key)?),
                    (Some(_), File::Envelope(_)) => {
                        return Err(Shown::new(
                            "its root requires the entry of a log, and an envelope has none",
                        ));
                    }
                    (None, File::Envelope(envelope)) => {
                        verify_envelope(envelope, &key)?;
                        None
                    }
                    (None, File::Bundle(bundle)) => {
                        verify_content(&bundle.content, artifact, &key)?;
                        None
                    }
                };
                Ok(Self {
                    trust: trust.name.clone(),
                    issuer: None,
                    subject: None,
                    key: Some(Fingerprint::from_content(key.as_bytes())),
                    claims: Claims::default(),
                    signed_at,
                })
            };
            match verify() {
                Ok(signature) => return Some(Ok(signature)),
                Err(error) => problem = Some(Err(error)),
            }
        }
        problem
    }
}

/// Verifies a signature with a key, and the log and timestamps with the root.
fn logged(
    bundle: &Bundle,
    artifact: Fingerprint,
    root: &str,
    key: &DerPublicKey,
) -> Result<VerificationResult, Shown> {
    let (verifier, root) = verifier(root).map_err(Shown::new)?;
    let mut policy = PublicKeyVerificationPolicy::new(key.clone());
    if root.tlogs.is_empty() {
        policy = policy.skip_tlog_unsafe();
    }
    verifier.verify(digest(artifact), bundle, &policy).map_err(Shown::new)
}

/// Verifies a signature with a key alone.
fn verify_content(
    content: &SignatureContent,
    artifact: Fingerprint,
    key: &DerPublicKey,
) -> Result<(), Shown> {
    let message = match content {
        SignatureContent::DsseEnvelope(envelope) => return verify_envelope(envelope, key),
        SignatureContent::MessageSignature(message) => message,
        _ => return Err(Shown::new("the content of the bundle is of an unknown type")),
    };
    let algorithm = KeyAlgorithm::from_spki(key).map_err(Shown::new)?;
    let scheme = algorithm.resolve_signing_scheme(HashAlgorithm::Sha2256).map_err(Shown::new)?;
    let stated = message.message_digest.as_ref();
    if stated.is_some_and(|stated| {
        stated.algorithm != HashAlgorithm::Sha2256 || stated.digest.as_bytes() != artifact.bytes()
    }) {
        return Err(Shown::new("it is about another artifact"));
    }
    verify_signature_prehashed(key, artifact.bytes(), &message.signature, scheme).map_err(Shown::new)
}

fn verify_envelope(envelope: &DsseEnvelope, key: &DerPublicKey) -> Result<(), Shown> {
    let scheme = KeyAlgorithm::from_spki(key).map_err(Shown::new)?.default_signing_scheme();
    verify_signature(key, &envelope.pae(), &envelope.signature.sig, scheme).map_err(Shown::new)
}

fn digest(artifact: Fingerprint) -> Artifact<'static> {
    Artifact::from_digest(ArtifactDigest::sha256(Sha256Hash::new(*artifact.bytes())))
}

/// The earliest time of the signature that a log or an authority vouches for.
fn signed_at(result: &VerificationResult) -> Option<Timestamp> {
    let earliest = result.verified_timestamps().iter().min()?;
    Some(Timestamp::from_micros(earliest.as_microsecond()))
}
