//! In-toto statements: their subject, and what their predicates say. The caller has verified the signature.

use serde::Deserialize;
use serde_json::value::RawValue;

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
pub(crate) struct Statement<'a> {
    #[serde(rename = "_type")]
    version: String,
    subject: Vec<Subject>,
    pub(crate) predicate_type: String,
    #[serde(borrow, rename = "predicate")]
    text: Option<&'a RawValue>,
    #[serde(skip)]
    predicate: Predicate,
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

/// What is read of a provenance (SLSA, <https://slsa.dev/spec/v1.0/provenance>, and version 0.2), of a verification summary
/// and of a test result.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    run_details: Option<RunDetails>,
    build_definition: Option<BuildDefinition>,
    builder: Option<Builder>,
    invocation: Option<Invocation>,
    verification_result: Option<String>,
    result: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RunDetails {
    builder: Option<Builder>,
}

#[derive(Debug, Deserialize)]
struct Builder {
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition {
    resolved_dependencies: Option<Vec<Dependency>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    config_source: Option<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    uri: Option<String>,
    digest: Option<Commit>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    git_commit: Option<String>,
    sha1: Option<String>,
}

impl Dependency {
    /// The repository and the commit.
    fn source(&self) -> Option<(String, String)> {
        let Commit { git_commit, sha1 } = self.digest.as_ref()?;
        let commit = git_commit.as_ref().or(sha1.as_ref()).filter(|commit| is_commit_hash(commit))?;
        Some((repository(self.uri.as_ref()?)?, commit.clone()))
    }
}

/// Where an artifact was built, and of what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Claims {
    pub(crate) builder: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) commit: Option<String>,
}

impl<'a> Statement<'a> {
    pub(crate) fn parse(payload: &'a [u8], artifact: Fingerprint) -> Result<Self, StatementError> {
        let invalid = |error: serde_json::Error| StatementError::Json(Shown::new(error));
        let mut statement: Self = serde_json::from_slice(payload).map_err(invalid)?;
        if !TYPES.contains(&statement.version.as_str()) {
            return Err(StatementError::Type(Shown::new(statement.version)));
        }
        let digest = artifact.to_string();
        if !statement.subject.iter().any(|subject| subject.digest.sha256.as_ref() == Some(&digest)) {
            return Err(StatementError::Subject(artifact));
        }
        let is_read = matches!(
            statement.kind(),
            EvidenceKind::Provenance | EvidenceKind::Summary | EvidenceKind::TestResult
        );
        if let Some(text) = statement.text.filter(|_| is_read) {
            statement.predicate = serde_json::from_str(text.get()).map_err(invalid)?;
        }
        Ok(statement)
    }

    pub(crate) fn kind(&self) -> EvidenceKind {
        EvidenceKind::of_predicate(&self.predicate_type)
    }

    /// Whether it passes: what only states a fact does. A word that is not known is no pass.
    pub(crate) fn passes(&self) -> Option<bool> {
        let has_passed = |word: &Option<String>| Some(word.as_deref() == Some("PASSED"));
        match self.kind() {
            EvidenceKind::Provenance | EvidenceKind::Sbom | EvidenceKind::Signature => Some(true),
            EvidenceKind::TestResult => has_passed(&self.predicate.result),
            EvidenceKind::Summary => has_passed(&self.predicate.verification_result),
            EvidenceKind::Statement => None,
        }
    }

    /// The bill of materials that is its predicate.
    pub(crate) fn bill(&self) -> Option<String> {
        let text = self.text.filter(|_| self.kind() == EvidenceKind::Sbom)?;
        Some(text.get().to_owned())
    }

    /// What a provenance says.
    pub(crate) fn claims(&self) -> Claims {
        if self.kind() != EvidenceKind::Provenance {
            return Claims::default();
        }
        let Predicate { run_details, build_definition, builder, invocation, .. } = &self.predicate;
        let builder = run_details.as_ref().and_then(|details| details.builder.as_ref()).or(builder.as_ref());
        let dependencies =
            build_definition.as_ref().and_then(|definition| definition.resolved_dependencies.as_ref());
        let old = invocation.as_ref().and_then(|invocation| invocation.config_source.as_ref());
        let dependencies = dependencies.into_iter().flatten().chain(old);
        // Which of several repositories it was built from is unclear.
        let mut sources: Vec<_> = dependencies.filter_map(Dependency::source).collect();
        sources.dedup();
        let source = if sources.len() == 1 { sources.pop() } else { None };
        let (source, commit) = source.unzip();
        Claims { builder: builder.and_then(|builder| builder.id.clone()), source, commit }
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
