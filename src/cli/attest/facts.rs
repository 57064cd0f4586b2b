//! What was tested: an option for each fact, the working copy, and the variables of the CI system.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::domain::attestation::provenance::{
    AnotherCommit, Fact, Facts, Found, Source, gathered, of_ci, of_object, page,
};
use crate::domain::escape::Visible;
use crate::domain::model::{InvalidName, Provider, RepositoryName, is_commit_hash};
use crate::process::{error_causes, git};

/// An option for each fact.
#[derive(Debug, Args)]
#[command(next_help_heading = "What was tested (default: from the working copy and the CI system)")]
pub(super) struct Given {
    /// Folder of the working copy (default: the one that this runs in)
    #[arg(long, value_name = "DIR", value_parser = folder)]
    working_copy: Option<PathBuf>,
    /// Commit that was tested: its hash, or a name that the working copy knows
    #[arg(long, value_name = "REVISION")]
    commit: Option<String>,
    /// Page of the commit
    #[arg(long, value_name = "URL")]
    commit_url: Option<String>,
    /// Branch of the commit
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Author of the commit: a name, and an address in angle brackets
    #[arg(long, value_name = "AUTHOR")]
    author: Option<String>,
    /// The author's name at the provider
    #[arg(long, value_name = "NAME")]
    author_username: Option<String>,
    /// Message of the commit
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Time of the commit, as 2026-09-15T12:00:00Z or in seconds since 1970
    #[arg(long, value_name = "TIME")]
    commit_timestamp: Option<String>,
    /// Hash of a parent of the commit; repeat it for several
    #[arg(long, value_name = "HASH")]
    parent: Vec<String>,
    /// Repository with its owners, as acme/cart
    #[arg(long, value_name = "NAME", value_parser = repository)]
    repository: Option<String>,
    /// Page of the repository
    #[arg(long, value_name = "URL")]
    repository_url: Option<String>,
    /// The provider's own identifier of the repository
    #[arg(long, value_name = "ID")]
    repository_id: Option<String>,
    /// What the repository is about
    #[arg(long, value_name = "TEXT")]
    repository_description: Option<String>,
    /// Who hosts the repository
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: Option<String>,
    /// Page of the pipeline that ran the tests
    #[arg(long, value_name = "URL")]
    origin_url: Option<String>,
}

impl Given {
    /// All that is known.
    pub(super) fn gather(&self) -> Facts {
        let mut given = self.given();
        let working_copy = self.working_copy(&mut given);
        let ci = of_ci(|name| std::env::var(name).ok());
        let (facts, another) = gathered(given, &working_copy, &ci);
        // Whoever gives a commit knows that it is another.
        if let Some(AnotherCommit { said, tested }) =
            another.filter(|another| another.tested.from != Source::Given)
        {
            tracing::warn!(
                "{} says {}, but what was tested is {} ({}); only the latter counts",
                said.from,
                Visible(&said.value),
                Visible(&tested.value),
                tested.from
            );
        }
        facts
    }

    fn given(&self) -> Facts {
        let parents = Some(self.parent.join(" ")).filter(|parents| !parents.is_empty());
        let facts = [
            (Fact::Commit, &self.commit),
            (Fact::CommitUrl, &self.commit_url),
            (Fact::Branch, &self.branch),
            (Fact::Author, &self.author),
            (Fact::AuthorUsername, &self.author_username),
            (Fact::Message, &self.message),
            (Fact::Timestamp, &self.commit_timestamp),
            (Fact::Parents, &parents),
            (Fact::Repository, &self.repository),
            (Fact::RepositoryUrl, &self.repository_url),
            (Fact::RepositoryId, &self.repository_id),
            (Fact::RepositoryDescription, &self.repository_description),
            (Fact::Provider, &self.provider),
            (Fact::OriginUrl, &self.origin_url),
        ];
        let given = facts.into_iter().filter_map(|(fact, value)| {
            let value = value.as_ref().filter(|value| !value.is_empty())?;
            Some((fact, Found { value: value.clone(), from: Source::Given }))
        });
        given.collect()
    }

    /// What the working copy knows of the commit that was given, or is checked out. A revision that was
    /// given becomes the hash that it stands for.
    fn working_copy(&self, given: &mut Facts) -> Facts {
        let folder = self.working_copy.as_deref().unwrap_or(Path::new("."));
        match git::is_in_repository(folder) {
            Ok(true) => {}
            Ok(false) => return Facts::new(),
            Err(error @ git::GitError::Run(_)) => {
                tracing::debug!("the working copy is not asked: {}", said(&error));
                return Facts::new();
            }
            Err(error) => {
                tracing::warn!("the working copy cannot be asked: {}", said(&error));
                return Facts::new();
            }
        }
        let mut facts = Facts::new();
        let revision = given.get(&Fact::Commit).map(|found| found.value.clone());
        match git::commit(folder, revision.as_deref().unwrap_or("HEAD")) {
            Ok(commit) => {
                facts = of_object(&commit.hash, &commit.object);
                if revision.is_none() || is_checked_out(folder, &commit.hash) {
                    let branch = git::branch(folder).map(|value| Found { value, from: Source::WorkingCopy });
                    facts.extend(branch.map(|branch| (Fact::Branch, branch)));
                }
                if let Some(given) = given.get_mut(&Fact::Commit) {
                    given.value = commit.hash;
                }
            }
            // A whole hash is known without a working copy.
            Err(_) if revision.as_deref().is_some_and(is_commit_hash) => {}
            Err(error) => tracing::warn!("the working copy does not know the commit: {}", said(&error)),
        }
        let url = git::remote(folder).and_then(|url| page(&url));
        let url = url.map(|value| (Fact::RepositoryUrl, Found { value, from: Source::WorkingCopy }));
        facts.extend(url);
        facts
    }
}

fn is_checked_out(folder: &Path, hash: &str) -> bool {
    git::commit(folder, "HEAD").is_ok_and(|head| head.hash == hash)
}

fn said(error: &git::GitError) -> String {
    Visible(&error_causes::said_once(error).join(": ")).to_string()
}

fn folder(path: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(path);
    if path.is_dir() { Ok(path) } else { Err("a directory was expected") }
}

/// An empty option is one that is not given: pipelines write it so.
fn repository(name: &str) -> Result<String, InvalidName> {
    if name.is_empty() {
        Ok(String::new())
    } else {
        name.parse().map(|name: RepositoryName| name.to_string())
    }
}

fn provider() -> impl TypedValueParser<Value = String> {
    let words = Provider::ALL.map(|provider| PossibleValue::new(provider.as_str()));
    PossibleValuesParser::new(words.into_iter().chain([PossibleValue::new("").hide(true)]))
}
