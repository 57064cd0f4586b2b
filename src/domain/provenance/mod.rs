//! Where what was tested came from: the facts of commit and repository that an attestation holds.
//!
//! `attest` calls it with what it was given, what the working copy says and the variables of the
//! environment. Pure: text in, facts out. Each fact keeps where it was found, so that a person can be
//! shown it before it becomes evidence.

mod ci;
mod object;
mod remote;

pub use ci::found as of_ci;
pub use object::of_object;
pub use remote::{address, page, path};

use std::collections::BTreeMap;
use std::fmt;

use super::model::{
    GitCommit, InvalidText, Provider, RepositoryInfo, Text, Timestamp, UrlText, commit_url, is_commit_hash,
};
use super::visible::{Visible, shortened};

/// What may be known, in the order in which people look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named as its option is, and means a field of the interface")]
pub enum Fact {
    Commit,
    CommitUrl,
    Branch,
    Author,
    AuthorUsername,
    Message,
    Timestamp,
    Parents,
    Repository,
    RepositoryUrl,
    RepositoryId,
    RepositoryDescription,
    Provider,
    OriginUrl,
}

/// Where a fact was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An option.
    Given,
    /// The git repository around the working directory.
    WorkingCopy,
    /// A variable of the CI system.
    Variable(&'static str),
    /// Another fact.
    Fact(Fact),
}

/// A fact as text, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it says.
    pub value: String,
    /// Who says it.
    pub from: Source,
}

/// What is known.
pub type Facts = BTreeMap<Fact, Found>;

/// A fact that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("the {} \"{}\" ({from}) cannot be used: {why}", fact.words(), Visible(&shortened(value, 100)))]
pub struct InvalidFact {
    fact: Fact,
    value: String,
    from: Source,
    why: String,
}

/// The CI system speaks of another commit than the one that was tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnotherCommit {
    /// What the CI system says.
    pub said: Found,
    /// What was tested.
    pub tested: Found,
}

impl Fact {
    /// Whether it is one of the commit; the others are of the repository, and of the pipeline.
    #[must_use]
    pub fn is_of_commit(self) -> bool {
        use Fact::{Author, AuthorUsername, Branch, Commit, CommitUrl, Message, Parents, Timestamp};
        let of_commit = [Commit, CommitUrl, Branch, Author, AuthorUsername, Message, Timestamp, Parents];
        of_commit.contains(&self)
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::CommitUrl => "commit's page",
            Self::Branch => "branch",
            Self::Author => "author",
            Self::AuthorUsername => "author's username",
            Self::Message => "message",
            Self::Timestamp => "time of the commit",
            Self::Parents => "parents",
            Self::Repository => "repository",
            Self::RepositoryUrl => "repository's URL",
            Self::RepositoryId => "repository's id",
            Self::RepositoryDescription => "repository's description",
            Self::Provider => "provider",
            Self::OriginUrl => "origin",
        }
    }
}

/// Brings together what is known. What was given counts first. Of the commit, the working copy knows
/// more than the CI system, which names the commit that it was started for; of the repository, the CI
/// system knows more than a remote's URL. Where the CI system speaks of another commit than the one that
/// was tested, nothing that it says of a commit counts; and where that one is checked out, it may be of
/// another repository too.
#[must_use]
pub fn gathered(given: Facts, working_copy: &Facts, ci: &Facts) -> (Facts, Option<AnotherCommit>) {
    let mut facts = given;
    take(&mut facts, working_copy, Fact::is_of_commit);
    take(&mut facts, ci, |fact| fact == Fact::Commit || fact == Fact::OriginUrl);
    let (said, tested) = (ci.get(&Fact::Commit).cloned(), facts.get(&Fact::Commit).cloned());
    let another = said.zip(tested).filter(|(said, tested)| said.value != tested.value);
    match &another {
        None => take(&mut facts, ci, |_| true),
        Some((_, tested)) if tested.from == Source::Given => {
            take(&mut facts, ci, |fact| !fact.is_of_commit());
        }
        Some(_) => {}
    }
    take(&mut facts, working_copy, |_| true);
    derive(&mut facts);
    (facts, another.map(|(said, tested)| AnotherCommit { said, tested }))
}

/// In the place of what is no address.
const NO_ADDRESS: &str = "(not shown)";

/// Takes what is not known yet.
fn take(facts: &mut Facts, from: &Facts, which: impl Fn(Fact) -> bool) {
    for (fact, found) in from.iter().filter(|(fact, _)| which(**fact)) {
        facts.entry(*fact).or_insert_with(|| found.clone());
    }
}

/// Leaves credentials out of addresses, and adds what follows from other facts: the repository's name and
/// its host from its URL.
fn derive(facts: &mut Facts) {
    if let Some(Found { value, from }) = facts.get_mut(&Fact::RepositoryUrl) {
        if let Some(page) = page(value) {
            *value = page;
        }
        let (of, is_given) = (path(value), *from == Source::Given);
        // Where a repository is given, what was found is of another, unless its URL says the same.
        let is_another = |name: &Found| name.from == Source::Given && Some(&name.value) != of.as_ref();
        if !is_given && facts.get(&Fact::Repository).is_some_and(is_another) {
            facts.retain(|fact, found| {
                fact.is_of_commit() || *fact == Fact::OriginUrl || found.from == Source::Given
            });
        }
    }
    for fact in [Fact::CommitUrl, Fact::RepositoryUrl, Fact::OriginUrl] {
        if let Some(Found { value, .. }) = facts.get_mut(&fact) {
            // What is no address is not shown either: it may hold what has to be left out of one.
            *value = address(value).unwrap_or_else(|| NO_ADDRESS.to_owned());
        }
    }
    let Some(url) = facts.get(&Fact::RepositoryUrl).map(|found| found.value.clone()) else { return };
    let mut add = |fact, value: Option<String>| {
        if let Some(value) = value {
            let from = Source::Fact(Fact::RepositoryUrl);
            facts.entry(fact).or_insert(Found { value, from });
        }
    };
    add(Fact::Repository, path(&url));
    add(Fact::Provider, Provider::of_url(&url).map(|provider| provider.as_str().to_owned()));
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

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given"),
            Self::WorkingCopy => f.write_str("working copy"),
            Self::Variable(name) => f.write_str(name),
            Self::Fact(fact) => f.write_str(fact.words()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn facts<const N: usize>(from: Source, facts: [(Fact, &str); N]) -> Facts {
        facts.map(|(fact, value)| (fact, Found { value: value.to_owned(), from })).into()
    }

    fn said(facts: &Facts) -> Vec<(Fact, &str)> {
        facts.iter().map(|(fact, found)| (*fact, found.value.as_str())).collect()
    }

    const CI: Source = Source::Variable("X");

    #[test]
    fn what_was_given_counts_first_then_who_knows_best() {
        let given = facts(Source::Given, [(Fact::Branch, "given")]);
        let working_copy = facts(
            Source::WorkingCopy,
            [
                (Fact::Commit, ONE),
                (Fact::Branch, "w"),
                (Fact::Message, "w"),
                (Fact::RepositoryUrl, "https://github.com/w/w"),
            ],
        );
        let ci = facts(
            CI,
            [
                (Fact::Commit, ONE),
                (Fact::Branch, "c"),
                (Fact::Message, "c"),
                (Fact::Author, "c"),
                (Fact::Repository, "c/c"),
                (Fact::RepositoryUrl, "https://gitlab.com/c/c"),
                (Fact::OriginUrl, "https://ci.example.com"),
            ],
        );
        let (known, another) = gathered(given, &working_copy, &ci);
        assert_eq!(
            said(&known),
            [
                (Fact::Commit, ONE),
                (Fact::Branch, "given"),
                (Fact::Author, "c"),
                (Fact::Message, "w"),
                (Fact::Repository, "c/c"),
                (Fact::RepositoryUrl, "https://gitlab.com/c/c"),
                (Fact::Provider, "gitlab"),
                (Fact::OriginUrl, "https://ci.example.com/"),
            ]
        );
        assert_eq!(another, None);

        // Another commit: all that is known of it is the working copy's.
        let mut other = ci;
        other.extend(facts(CI, [(Fact::Commit, TWO)]));
        let (known, another) = gathered(Facts::new(), &working_copy, &other);
        assert_eq!(
            said(&known),
            [
                (Fact::Commit, ONE),
                (Fact::Branch, "w"),
                (Fact::Message, "w"),
                (Fact::Repository, "w/w"),
                (Fact::RepositoryUrl, "https://github.com/w/w"),
                (Fact::Provider, "github"),
                (Fact::OriginUrl, "https://ci.example.com/"),
            ]
        );
        let another = another.unwrap();
        assert_eq!((another.said.value.as_str(), another.tested.value.as_str()), (TWO, ONE));

        // So is what is found of another repository than the one that was given.
        let given = facts(Source::Given, [(Fact::Repository, "o/o"), (Fact::Provider, "bitbucket")]);
        let (known, _) = gathered(given, &working_copy, &Facts::new());
        assert_eq!(said(&known).split_off(3), [(Fact::Repository, "o/o"), (Fact::Provider, "bitbucket")]);

        // Another commit that was given is of the same repository.
        let given = facts(Source::Given, [(Fact::Commit, ONE)]);
        let ci = facts(CI, [(Fact::Commit, TWO), (Fact::Branch, "c"), (Fact::Repository, "c/c")]);
        let (known, _) = gathered(given, &Facts::new(), &ci);
        assert_eq!(said(&known), [(Fact::Commit, ONE), (Fact::Repository, "c/c")]);
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
