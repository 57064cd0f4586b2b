//! Converts facts into the commit and repository fields of an attestation.

use std::fmt;

use super::{Fact, Facts, Found, HIDDEN_URL, Source};
use model::escape::{Escaped, shortened};
use model::{
    GitCommit, InvalidText, Provider, RepositoryInfo, Text, Timestamp, UnknownFields, UrlText, commit_url,
    is_commit_hash,
};

#[derive(Debug, thiserror::Error)]
#[error("invalid {} \"{}\" ({from}): {problem}", fact.as_str(), Escaped(&shortened(value, 100)))]
pub struct InvalidFact {
    fact: Fact,
    value: String,
    from: Source,
    problem: String,
}

#[derive(Debug, Default)]
pub struct Provenance {
    /// The commit that was tested.
    pub commit: Option<GitCommit>,
    /// The repository of the commit.
    pub repository: Option<RepositoryInfo>,
    /// The pipeline's page.
    pub origin_url: Option<UrlText>,
    /// Detected facts that are invalid and not sent.
    pub skipped: Vec<InvalidFact>,
}

impl Provenance {
    /// Converts facts. Invalid facts are skipped unless they were given as options.
    ///
    /// # Errors
    ///
    /// [`InvalidFact`] for an invalid option.
    pub fn from_facts(facts: &Facts) -> Result<Self, InvalidFact> {
        let mut parser = FactParser { facts, skipped: Vec::new() };
        let repository = parser.repository()?;
        let mut commit = parser.commit()?;
        if let Some(commit) = &mut commit
            && commit.url.is_none()
        {
            commit.url = commit_url(repository.as_ref(), commit).and_then(|page| url(&page).ok());
        }
        let origin_url = parser.parse(Fact::OriginUrl, url)?;
        Ok(Self { commit, repository, origin_url, skipped: parser.skipped })
    }
}

struct FactParser<'a> {
    facts: &'a Facts,
    skipped: Vec<InvalidFact>,
}

impl FactParser<'_> {
    fn commit(&mut self) -> Result<Option<GitCommit>, InvalidFact> {
        let commit = GitCommit {
            sha1: self.parse(Fact::Commit, hash)?,
            message: self.parse(Fact::Message, text)?,
            author: self.parse(Fact::Author, text)?,
            author_username: self.parse(Fact::AuthorUsername, text)?,
            branch: self.parse(Fact::Branch, text)?,
            timestamp: self.parse(Fact::Timestamp, timestamp)?,
            url: self.parse(Fact::CommitUrl, url)?,
            parents: self.parse(Fact::Parents, |parents| {
                parents.split_ascii_whitespace().map(text).collect::<Result<Vec<_>, _>>()
            })?,
            ..GitCommit::default()
        };
        Ok(Some(commit).filter(|commit| *commit != GitCommit::default()))
    }

    /// `None` without a name, which is the key for querying live artifacts.
    fn repository(&mut self) -> Result<Option<RepositoryInfo>, InvalidFact> {
        let name = self.parse(Fact::Repository, str::parse)?;
        let url = self.parse(Fact::RepositoryUrl, url)?;
        let provider = self.parse(Fact::Provider, str::parse::<Provider>)?;
        let (id, description) =
            (self.parse(Fact::RepositoryId, text)?, self.parse(Fact::RepositoryDescription, text)?);
        let derived = url.as_ref().and_then(|url| Provider::from_url(url.as_str()));
        // Not in Kosli's API: sent only if it differs from the provider of the URL.
        let provider = provider.filter(|provider| derived.as_ref() != Some(provider));
        Ok(name.map(|name| RepositoryInfo {
            name,
            url,
            id,
            description,
            provider,
            namespace_path: None,
            additional_info: None,
            unknown: UnknownFields::default(),
        }))
    }

    fn parse<T, E: fmt::Display>(
        &mut self,
        fact: Fact,
        convert: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, InvalidFact> {
        let Some(Found { value, from }) = self.facts.get(&fact) else { return Ok(None) };
        let problem = match convert(value) {
            Ok(converted) => return Ok(Some(converted)),
            Err(error) => error.to_string(),
        };
        let invalid = InvalidFact { fact, value: value.clone(), from: *from, problem };
        if *from == Source::Given {
            return Err(invalid);
        }
        self.skipped.push(invalid);
        Ok(None)
    }
}

/// Texts are truncated to this many characters.
const MAX_TEXT_CHARS: usize = 10_000;

fn text(value: &str) -> Result<Text, InvalidText> {
    Text::new(shortened(value, MAX_TEXT_CHARS))
}

fn url(value: &str) -> Result<UrlText, String> {
    if value == HIDDEN_URL {
        return Err("expected a URL that starts with https:// or http://".to_owned());
    }
    UrlText::new(value).map_err(|error| error.to_string())
}

/// A commit hash: 40 hexadecimal digits, or 64 in a SHA-256 repository.
fn hash(value: &str) -> Result<String, &'static str> {
    if is_commit_hash(value) {
        return Ok(value.to_owned());
    }
    Err(
        "expected a full hash of 40 lowercase hexadecimal digits (64 in a SHA-256 repository), or a name that exists in the working copy",
    )
}

fn timestamp(value: &str) -> Result<Timestamp, &'static str> {
    let read = Timestamp::parse(value).or_else(|| Timestamp::from_seconds(value.parse().ok()?));
    read.ok_or("expected a time such as 2026-09-15T12:00:00Z, or seconds since 1970")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const CI: Source = Source::Variable("X");

    fn facts<const N: usize>(from: Source, facts: [(Fact, &str); N]) -> Facts {
        facts.map(|(fact, value)| (fact, Found { value: value.to_owned(), from })).into()
    }

    #[test]
    fn facts_become_the_fields_of_the_interface() {
        let known = facts(
            CI,
            [
                (Fact::Commit, ONE),
                (Fact::Branch, "main"),
                (Fact::Author, "Jo <jo@example.com>"),
                (Fact::Message, "Count\n\nall\n"),
                (Fact::Timestamp, "2026-09-15T12:00:00+02:00"),
                (Fact::Parents, "22 33"),
                (Fact::Repository, "acme/cart"),
                (Fact::RepositoryUrl, "https://token@git.example.com/acme/cart"),
                (Fact::RepositoryId, "7"),
                (Fact::Provider, "gitlab"),
            ],
        );
        let Provenance { commit, repository, .. } = Provenance::from_facts(&known).unwrap();
        assert_eq!(
            json!({"commit": commit, "repository": repository}),
            json!({
                "commit": {
                    "sha1": ONE, "message": "Count\n\nall\n", "author": "Jo <jo@example.com>", "branch": "main",
                    "timestamp": 1_789_466_400, "url": format!("https://git.example.com/acme/cart/-/commit/{ONE}"),
                    "parents": ["22", "33"],
                },
                "repository": {
                    "name": "acme/cart", "url": "https://git.example.com/acme/cart", "id": "7", "provider": "gitlab",
                },
            })
        );
        let known = facts(
            CI,
            [
                (Fact::RepositoryUrl, "https://github.com/a/b"),
                (Fact::Repository, "a/b"),
                (Fact::Provider, "github"),
            ],
        );
        let Provenance { commit, repository, .. } = Provenance::from_facts(&known).unwrap();
        assert_eq!(
            json!([commit, repository]),
            json!([null, {"name": "a/b", "url": "https://github.com/a/b"}])
        );
    }

    #[test]
    fn invalid_fact_is_reported_with_its_source() {
        for (fact, value, problem) in [
            (Fact::Commit, "HEAD", "40 lowercase hexadecimal digits"),
            (Fact::Timestamp, "noon", "a time such as 2026-09-15T12:00:00Z"),
            (Fact::Timestamp, "-1", "a time such as 2026-09-15T12:00:00Z"),
            (Fact::Repository, "acme//cart", "got an empty part"),
            (Fact::Author, "a\0b", "NUL"),
        ] {
            let error =
                Provenance::from_facts(&facts(Source::Given, [(fact, value)])).unwrap_err().to_string();
            assert!(
                error.contains(fact.as_str()) && error.contains("(given)") && error.contains(problem),
                "{error}"
            );
            // An invalid fact that was only detected is skipped.
            let provenance = Provenance::from_facts(&facts(CI, [(fact, value)])).unwrap();
            assert!(provenance.skipped[0].to_string().contains("(X)"), "{provenance:?}");
        }
    }
}
