//! What a signature that the service verified says about an artifact. The crate `bundle` verifies it.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::{Fingerprint, Timestamp, words};

words! {
    /// A type of attestation whose content is signed.
    EvidenceKind {
        /// How the artifact was built.
        Provenance "slsa-provenance",
        /// Its packages.
        Sbom "sbom",
        /// The result of tests.
        TestResult "test-result",
        /// What another verifier decided.
        Summary "vsa",
        /// Nothing but the signature.
        Signature "signature",
        /// Another statement.
        Statement "statement",
    }
}

/// A verified signature of an artifact, or of a statement about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema, utoipa::ToSchema))]
pub struct SignedEvidence {
    /// The entry of `trust` in the bootstrap file that the signer matched.
    pub trust: String,
    /// The issuer of the certificate's identity; none for a key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub issuer: Option<String>,
    /// The identity in the certificate: an email address, or the URL of a workflow; none for a key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
    /// The SHA-256 of the public key in DER; none for a certificate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub key: Option<Fingerprint>,
    /// The type of the statement's predicate; none for a signature of the artifact itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub predicate_type: Option<String>,
    /// What built it: as the certificate says, else as the statement does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub builder: Option<String>,
    /// The URL of the repository that it was built from: as the certificate says, else as the statement does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// The commit that it was built from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// The time of the signature, as a log or a timestamp authority says; none if neither is required.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<f64>"))]
    pub signed_at: Option<Timestamp>,
}

impl EvidenceKind {
    /// The type of an attestation with a statement of this predicate.
    #[must_use]
    pub fn of_predicate(predicate: &str) -> Self {
        let is = |name: &str| {
            predicate.strip_prefix(name).is_some_and(|version| version.is_empty() || version.starts_with('/'))
        };
        match predicate {
            "https://slsa.dev/provenance/v1" | "https://slsa.dev/provenance/v0.2" => Self::Provenance,
            "https://slsa.dev/verification_summary/v1" => Self::Summary,
            "https://in-toto.io/attestation/test-result/v0.1" => Self::TestResult,
            "https://sigstore.dev/cosign/sign/v1" => Self::Signature,
            _ if is("https://cyclonedx.org/bom") || is("https://spdx.dev/Document") => Self::Sbom,
            _ => Self::Statement,
        }
    }
}

/// The type of attestation that a bundle or envelope would be if its signature were verified. `None` if it is neither.
#[must_use]
pub fn claimed_kind(file: &[u8]) -> Option<EvidenceKind> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Bundle {
        message_signature: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Statement {
        predicate_type: String,
    }
    let Ok(envelope) = Envelope::read(file) else {
        let Bundle { message_signature } = serde_json::from_slice(file).ok()?;
        return message_signature.map(|_| EvidenceKind::Signature);
    };
    let statement: Statement = serde_json::from_slice(&envelope.payload()?).ok()?;
    Some(EvidenceKind::of_predicate(&statement.predicate_type))
}

impl SignedEvidence {
    /// Who signed it, with its issuer: `SUBJECT of ISSUER`, or `the key of TRUST`.
    #[must_use]
    pub fn signed_by(&self) -> String {
        match &self.issuer {
            Some(issuer) => format!("{} of {issuer}", self.signer()),
            None => format!("the key of {}", self.trust),
        }
    }

    /// Who signed it: an identity, or the name of the trusted key.
    #[must_use]
    pub fn signer(&self) -> &str {
        self.subject.as_deref().unwrap_or(&self.trust)
    }
}

/// `signed by KEY, built by BUILDER, from SOURCE at COMMIT`.
impl fmt::Display for SignedEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signed by {}", self.signer())?;
        if let Some(builder) = self.builder.as_ref().filter(|builder| *builder != self.signer()) {
            write!(f, ", built by {builder}")?;
        }
        if let Some(source) = &self.source {
            write!(f, ", from {source}")?;
        }
        match &self.commit {
            Some(commit) => write!(f, " at {}", commit.chars().take(12).collect::<String>()),
            None => Ok(()),
        }
    }
}
