//! In-toto statements: their subject, and what their predicates say. The caller has verified the signature.

use serde::Deserialize;
use serde_json::Value;

use crate::Shown;
use model::{EvidenceKind, Fingerprint, is_commit_hash};

/// The types of statements (in-toto attestation framework, version 1 and before).
const TYPES: [&str; 2] = [model::envelope::STATEMENT_V1, "https://in-toto.io/Statement/v0.1"];

#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    #[error("its payload is not an in-toto statement: {0}")]
    Json(Shown),
    #[error("its payload has the type \"{0}\": expected \"{first}\"", first = TYPES[0])]
    Type(Shown),
    #[error("it is about another artifact: no subject of its statement has the digest sha256:{0}")]
    Subject(Fingerprint),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Statement {
    #[serde(rename = "_type")]
    version: String,
    subject: Vec<Subject>,
    pub(crate) predicate_type: String,
    #[serde(default)]
    predicate: Value,
}

#[derive(Debug, Deserialize)]
struct Subject {
    digest: Digests,
}

/// Digests by algorithm.
#[derive(Debug, Deserialize)]
struct Digests {
    sha256: Option<String>,
}

/// Where an artifact was built, and of what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Claims {
    pub(crate) builder: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) commit: Option<String>,
}

impl Statement {
    pub(crate) fn parse(payload: &[u8], artifact: Fingerprint) -> Result<Self, StatementError> {
        let statement: Self =
            serde_json::from_slice(payload).map_err(|error| StatementError::Json(Shown::new(error)))?;
        if !TYPES.contains(&statement.version.as_str()) {
            return Err(StatementError::Type(Shown::new(statement.version)));
        }
        let digest = artifact.to_string();
        if !statement.subject.iter().any(|subject| subject.digest.sha256.as_ref() == Some(&digest)) {
            return Err(StatementError::Subject(artifact));
        }
        Ok(statement)
    }

    pub(crate) fn kind(&self) -> EvidenceKind {
        EvidenceKind::of_predicate(&self.predicate_type)
    }

    /// Whether it passes: what only states a fact does. A word that is not known is no pass.
    pub(crate) fn passes(&self) -> Option<bool> {
        let has_passed = |pointer| Some(self.text(pointer) == Some("PASSED"));
        match self.kind() {
            EvidenceKind::Provenance | EvidenceKind::Sbom | EvidenceKind::Signature => Some(true),
            EvidenceKind::TestResult => has_passed("/result"),
            EvidenceKind::Summary => has_passed("/verificationResult"),
            EvidenceKind::Statement => None,
        }
    }

    /// What a provenance says (SLSA, <https://slsa.dev/spec/v1.0/provenance>, and version 0.2).
    pub(crate) fn claims(&self) -> Claims {
        if self.kind() != EvidenceKind::Provenance {
            return Claims::default();
        }
        let builder = self.text("/runDetails/builder/id").or(self.text("/builder/id"));
        let old = self
            .text("/invocation/configSource/uri")
            .zip(self.predicate.pointer("/invocation/configSource/digest"));
        let dependencies =
            self.predicate.pointer("/buildDefinition/resolvedDependencies").and_then(Value::as_array);
        let dependencies = dependencies.into_iter().flatten();
        let dependencies = dependencies
            .filter_map(|dependency| dependency.get("uri")?.as_str().zip(dependency.get("digest")));
        let sources = dependencies.chain(old).filter_map(|(uri, digest)| {
            let commit = ["gitCommit", "sha1"].into_iter().find_map(|name| digest.get(name)?.as_str());
            let commit = commit.filter(|commit| is_commit_hash(commit))?;
            Some((repository(uri)?, commit.to_owned()))
        });
        // Which of several repositories it was built from is unclear.
        let mut sources: Vec<_> = sources.collect();
        sources.dedup();
        let (source, commit) = match sources.as_slice() {
            [(source, commit)] => (Some(source.clone()), Some(commit.clone())),
            _ => (None, None),
        };
        Claims { builder: builder.map(str::to_owned), source, commit }
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.predicate.pointer(pointer)?.as_str()
    }
}

/// The URL of a repository: `https://github.com/acme/cart` for `git+https://github.com/acme/cart.git@refs/heads/main`.
pub(crate) fn repository(uri: &str) -> Option<String> {
    let url = uri.strip_prefix("git+").unwrap_or(uri);
    let (scheme, path) = url.split_once("://")?;
    // The reference follows the path; a user precedes the host.
    let (host, path) = path.split_once('/')?;
    let path = path.split(['@', '?', '#']).next()?;
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.contains('@') && !path.is_empty()).then(|| format!("{scheme}://{host}/{path}"))
}
