//! From facts to the commit and the repository that an attestation holds.

use std::fmt;

use super::{Fact, Facts, Found, NO_ADDRESS, Source};
use crate::domain::escape::{Visible, shortened};
use crate::domain::model::{
    GitCommit, InvalidText, Provider, RepositoryInfo, Text, Timestamp, UrlText, commit_url, is_commit_hash,
};

/// A fact that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("the {} \"{}\" ({from}) cannot be used: {why}", fact.words(), Visible(&shortened(value, 100)))]
pub struct InvalidFact {
    fact: Fact,
    value: String,
    from: Source,
    why: String,
}

/// What an attestation says of where it came from.
#[derive(Debug, Default)]
pub struct Provenance {
    /// The commit that was tested.
    pub commit: Option<GitCommit>,
    /// The repository that it is in.
    pub repository: Option<RepositoryInfo>,
    /// The pipeline's page.
    pub origin_url: Option<UrlText>,
    /// What was found and cannot be sent.
    pub left_out: Vec<InvalidFact>,
}

/// What is known, as an attestation says it.
///
/// # Errors
///
/// [`InvalidFact`] for one that was given and that the interface has no place for.
pub fn of_attestation(facts: &Facts) -> Result<Provenance, InvalidFact> {
    let mut reading = Reading { facts, left_out: Vec::new() };
    let repository = reading.repository()?;
    let mut commit = reading.commit()?;
    if let Some(commit) = &mut commit
        && commit.url.is_none()
    {
        commit.url = commit_url(repository.as_ref(), commit).and_then(|page| url(&page).ok());
    }
    let origin_url = reading.read(Fact::OriginUrl, url)?;
    Ok(Provenance { commit, repository, origin_url, left_out: reading.left_out })
}

/// Facts that are read, and those that could not be.
struct Reading<'a> {
    facts: &'a Facts,
    left_out: Vec<InvalidFact>,
}

impl Reading<'_> {
    fn commit(&mut self) -> Result<Option<GitCommit>, InvalidFact> {
        let commit = GitCommit {
            sha1: self.read(Fact::Commit, hash)?,
            message: self.read(Fact::Message, text)?,
            author: self.read(Fact::Author, text)?,
            author_username: self.read(Fact::AuthorUsername, text)?,
            branch: self.read(Fact::Branch, text)?,
            timestamp: self.read(Fact::Timestamp, timestamp)?,
            url: self.read(Fact::CommitUrl, url)?,
            parents: self.read(Fact::Parents, |parents| {
                parents.split_ascii_whitespace().map(text).collect::<Result<Vec<_>, _>>()
            })?,
        };
        Ok(Some(commit).filter(|commit| *commit != GitCommit::default()))
    }

    /// A repository without a name is none: it is what live artifacts are asked for by.
    fn repository(&mut self) -> Result<Option<RepositoryInfo>, InvalidFact> {
        let name = self.read(Fact::Repository, str::parse)?;
        let address = self.read(Fact::RepositoryUrl, url)?;
        let provider = self.read(Fact::Provider, str::parse::<Provider>)?;
        let (id, description) =
            (self.read(Fact::RepositoryId, text)?, self.read(Fact::RepositoryDescription, text)?);
        let told = address.as_ref().and_then(|address| Provider::of_url(address.as_str()));
        // The interface has no place for the provider, so it is said where the URL does not tell.
        let provider = provider.filter(|_| told != provider);
        Ok(name.map(|name| RepositoryInfo { name, url: address, id, description, provider }))
    }

    fn read<T, E: fmt::Display>(
        &mut self,
        fact: Fact,
        as_what: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, InvalidFact> {
        let Some(Found { value, from }) = self.facts.get(&fact) else { return Ok(None) };
        let why = match as_what(value) {
            Ok(read) => return Ok(Some(read)),
            Err(why) => why.to_string(),
        };
        let invalid = InvalidFact { fact, value: value.clone(), from: *from, why };
        if *from == Source::Given {
            return Err(invalid);
        }
        self.left_out.push(invalid);
        Ok(None)
    }
}

/// How much is kept of a text, in characters.
const LONGEST: usize = 10_000;

fn text(value: &str) -> Result<Text, InvalidText> {
    Text::new(shortened(value, LONGEST))
}

fn url(value: &str) -> Result<UrlText, String> {
    if value == NO_ADDRESS {
        return Err("a URL that begins with https:// or http:// was expected".to_owned());
    }
    UrlText::new(value).map_err(|error| error.to_string())
}

/// The hash of a commit: 40 hexadecimal digits, or 64 in a SHA-256 repository.
fn hash(value: &str) -> Result<String, &'static str> {
    if is_commit_hash(value) {
        return Ok(value.to_owned());
    }
    Err(
        "a whole hash of 40 lowercase hexadecimal digits was expected (64 in a SHA-256 repository), or a name that the working copy knows",
    )
}

fn timestamp(value: &str) -> Result<Timestamp, &'static str> {
    let read = Timestamp::parse(value).or_else(|| Timestamp::from_seconds(value.parse().ok()?));
    read.ok_or("a time as 2026-09-15T12:00:00Z, or seconds since 1970, was expected")
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
    fn a_commit_and_a_repository_are_what_the_interface_names() {
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
        let Provenance { commit, repository, .. } = of_attestation(&known).unwrap();
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
        let Provenance { commit, repository, .. } = of_attestation(&known).unwrap();
        assert_eq!(
            json!([commit, repository]),
            json!([null, {"name": "a/b", "url": "https://github.com/a/b"}])
        );
    }

    #[test]
    fn a_fact_that_cannot_be_sent_is_named_with_its_source() {
        for (fact, value, why) in [
            (Fact::Commit, "HEAD", "40 lowercase hexadecimal digits was expected"),
            (Fact::Timestamp, "noon", "a time as 2026-09-15T12:00:00Z"),
            (Fact::Timestamp, "-1", "a time as 2026-09-15T12:00:00Z"),
            (Fact::Repository, "acme//cart", "has an empty part"),
            (Fact::Author, "a\0b", "NUL"),
        ] {
            let error = of_attestation(&facts(Source::Given, [(fact, value)])).unwrap_err().to_string();
            assert!(
                error.contains(fact.words()) && error.contains("(given)") && error.contains(why),
                "{error}"
            );
            // What was only found does not keep the rest from being attested.
            let found = of_attestation(&facts(CI, [(fact, value)])).unwrap();
            assert!(found.left_out[0].to_string().contains("(X)"), "{found:?}");
        }
    }
}
