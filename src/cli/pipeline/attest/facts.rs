//! Collects the provenance of tests from options, the working copy and the variables of the CI system.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::provenance::{
    CommitMismatch, Fact, Facts, Found, Source, facts_from_ci, facts_from_commit, merge,
};
use model::escape::Escaped;
use model::{InvalidName, Provider, RepositoryName, is_commit_hash, repository_page};
use runtime::{error_causes, git};

#[derive(Debug, Args)]
#[command(next_help_heading = "Provenance (default: from the working copy and the CI system)")]
pub(super) struct ProvenanceOptions {
    /// Working copy (default: the current directory)
    #[arg(long, value_name = "DIR", value_parser = folder)]
    working_copy: Option<PathBuf>,
    /// Tested commit, as a hash or a revision in the working copy
    #[arg(long, value_name = "REVISION")]
    commit: Option<String>,
    /// URL of the commit
    #[arg(long, value_name = "URL")]
    commit_url: Option<String>,
    /// Branch of the commit
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Author of the commit, such as "Jo Doe <jo@example.com>"
    #[arg(long, value_name = "AUTHOR")]
    author: Option<String>,
    /// Message of the commit
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Time of the commit, as 2026-09-15T12:00:00Z or in seconds of Unix time
    #[arg(long, value_name = "TIME")]
    commit_timestamp: Option<String>,
    /// Repository with its owner, such as acme/cart
    #[arg(long, value_name = "NAME", value_parser = repository)]
    repository: Option<String>,
    /// URL of the repository
    #[arg(long, value_name = "URL")]
    repository_url: Option<String>,
    /// Host of the repository
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: Option<String>,
    /// URL of the pipeline that ran the tests
    #[arg(long, value_name = "URL")]
    origin_url: Option<String>,
}

impl ProvenanceOptions {
    /// Collects all facts. Options take precedence over the working copy, which takes precedence over variables.
    pub(super) fn gather(&self) -> Facts {
        let mut given = self.given();
        let working_copy = self.working_copy(&mut given);
        let ci = facts_from_ci(|name| std::env::var(name).ok());
        let (facts, mismatch) = merge(given, &working_copy, &ci);
        // A commit that was given as an option may differ on purpose.
        if let Some(CommitMismatch { ci, tested }) =
            mismatch.filter(|mismatch| mismatch.tested.from != Source::Given)
        {
            tracing::warn!(
                "ignoring commit {1} from {0}: the tested commit is {2} ({3})",
                ci.from,
                Escaped(&ci.value),
                Escaped(&tested.value),
                tested.from
            );
        }
        facts
    }

    fn given(&self) -> Facts {
        let facts = [
            (Fact::Commit, &self.commit),
            (Fact::CommitUrl, &self.commit_url),
            (Fact::Branch, &self.branch),
            (Fact::Author, &self.author),
            (Fact::Message, &self.message),
            (Fact::Timestamp, &self.commit_timestamp),
            (Fact::Repository, &self.repository),
            (Fact::RepositoryUrl, &self.repository_url),
            (Fact::Provider, &self.provider),
            (Fact::OriginUrl, &self.origin_url),
        ];
        let given = facts.into_iter().filter_map(|(fact, value)| {
            let value = value.as_ref().filter(|value| !value.is_empty())?;
            Some((fact, Found { value: value.clone(), from: Source::Given }))
        });
        given.collect()
    }

    /// Facts of the given or checked-out commit in the working copy. Resolves a given revision to its hash.
    fn working_copy(&self, given: &mut Facts) -> Facts {
        let folder = self.working_copy.as_deref().unwrap_or(Path::new("."));
        match git::is_in_repository(folder) {
            Ok(true) => {}
            Ok(false) => return Facts::new(),
            Err(error @ git::GitError::Run(_)) => {
                tracing::debug!("ignoring the working copy: {}", describe(&error));
                return Facts::new();
            }
            Err(error) => {
                tracing::warn!("failed to read the working copy: {}", describe(&error));
                return Facts::new();
            }
        }
        let mut facts = Facts::new();
        let revision = given.get(&Fact::Commit).map(|found| found.value.clone());
        match git::commit(folder, revision.as_deref().unwrap_or("HEAD")) {
            Ok(commit) => {
                facts = facts_from_commit(&commit.hash, &commit.object);
                if revision.is_none() || is_checked_out(folder, &commit.hash) {
                    let branch = git::branch(folder).map(|value| Found { value, from: Source::WorkingCopy });
                    facts.extend(branch.map(|branch| (Fact::Branch, branch)));
                }
                if let Some(given) = given.get_mut(&Fact::Commit) {
                    given.value = commit.hash;
                }
            }
            // A full hash needs no working copy.
            Err(_) if revision.as_deref().is_some_and(is_commit_hash) => {}
            Err(error) => {
                tracing::warn!("failed to find the commit in the working copy: {}", describe(&error));
            }
        }
        let url = git::remote(folder).and_then(|url| repository_page(&url));
        let url = url.map(|value| (Fact::RepositoryUrl, Found { value, from: Source::WorkingCopy }));
        facts.extend(url);
        facts
    }
}

fn is_checked_out(folder: &Path, hash: &str) -> bool {
    git::commit(folder, "HEAD").is_ok_and(|head| head.hash == hash)
}

fn describe(error: &git::GitError) -> String {
    Escaped(&error_causes::describe(error)).to_string()
}

fn folder(path: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(path);
    if path.is_dir() { Ok(path) } else { Err("expected a directory") }
}

/// An empty option counts as absent, because pipelines pass empty variables.
fn repository(name: &str) -> Result<String, InvalidName> {
    if name.is_empty() {
        Ok(String::new())
    } else {
        name.parse().map(|name: RepositoryName| name.to_string())
    }
}

fn provider() -> impl TypedValueParser<Value = String> {
    let words = Provider::NAMES.map(PossibleValue::new);
    PossibleValuesParser::new(words.into_iter().chain([PossibleValue::new("").hide(true)]))
}
