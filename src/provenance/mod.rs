//! Determines the provenance of an attestation: the commit, the repository and the pipeline.
//!
//! Called by `attest` with options, facts of the working copy and environment variables. Pure: text in, facts out.
//! Each fact keeps its source, which `attest` prints before it sends the attestation.

mod attestation_fields;
mod ci;
mod commit_object;

pub use attestation_fields::{InvalidFact, Provenance};
pub use ci::facts_from_ci;
pub use commit_object::facts_from_commit;

use std::collections::BTreeMap;
use std::fmt;

use model::{Provider, repository_page, repository_path, web_url, words};

words! {
    /// A kind of fact, in the order of display.
    Fact {
        Commit "commit",
        CommitUrl "commit's page",
        Branch "branch",
        Author "author",
        AuthorUsername "author's username",
        Message "message",
        Timestamp "time of the commit",
        Parents "parents",
        Repository "repository",
        RepositoryUrl "repository's URL",
        RepositoryId "repository's id",
        RepositoryDescription "repository's description",
        Provider "provider",
        OriginUrl "origin",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Given,
    /// The git repository around the working directory.
    WorkingCopy,
    /// A variable of the CI system.
    Variable(&'static str),
    Fact(Fact),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub value: String,
    pub from: Source,
}

pub type Facts = BTreeMap<Fact, Found>;

/// The CI system names another commit than the tested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitMismatch {
    /// The commit of the CI system.
    pub ci: Found,
    /// The tested commit.
    pub tested: Found,
}

impl Fact {
    /// Whether the fact describes the commit. Others describe the repository or the pipeline.
    #[must_use]
    pub fn is_of_commit(self) -> bool {
        use Fact::{Author, AuthorUsername, Branch, Commit, CommitUrl, Message, Parents, Timestamp};
        let of_commit = [Commit, CommitUrl, Branch, Author, AuthorUsername, Message, Timestamp, Parents];
        of_commit.contains(&self)
    }
}

/// Merges the facts of all sources. Options take precedence. For the commit, the working copy precedes the CI
/// system, which names the commit that it was started for; for the repository, the CI system precedes the remote.
/// If the CI system names another commit than the tested one, its facts about the commit are ignored. If the
/// tested commit is the checked out one, its facts about the repository are ignored as well.
#[must_use]
pub fn merge(given: Facts, working_copy: &Facts, ci: &Facts) -> (Facts, Option<CommitMismatch>) {
    let mut facts = given;
    add_missing(&mut facts, working_copy, Fact::is_of_commit);
    add_missing(&mut facts, ci, |fact| fact == Fact::Commit || fact == Fact::OriginUrl);
    let (ci_commit, tested) = (ci.get(&Fact::Commit).cloned(), facts.get(&Fact::Commit).cloned());
    let mismatch = ci_commit.zip(tested).filter(|(ci, tested)| ci.value != tested.value);
    match &mismatch {
        None => add_missing(&mut facts, ci, |_| true),
        Some((_, tested)) if tested.from == Source::Given => {
            add_missing(&mut facts, ci, |fact| !fact.is_of_commit());
        }
        Some(_) => {}
    }
    add_missing(&mut facts, working_copy, |_| true);
    derive(&mut facts);
    (facts, mismatch.map(|(ci, tested)| CommitMismatch { ci, tested }))
}

/// Replaces an invalid URL, which may contain credentials.
const HIDDEN_URL: &str = "(not shown)";

/// Adds facts that are not known yet.
fn add_missing(facts: &mut Facts, from: &Facts, which: impl Fn(Fact) -> bool) {
    for (fact, found) in from.iter().filter(|(fact, _)| which(**fact)) {
        facts.entry(*fact).or_insert_with(|| found.clone());
    }
}

/// Removes credentials from URLs, and derives the repository's name and provider from its URL.
fn derive(facts: &mut Facts) {
    if let Some(Found { value, from }) = facts.get_mut(&Fact::RepositoryUrl) {
        if let Some(page) = repository_page(value) {
            *value = page;
        }
        let (path, is_given) = (repository_path(value), *from == Source::Given);
        // The detected facts belong to another repository than the given one, unless the names are equal.
        let is_other = |name: &Found| name.from == Source::Given && Some(&name.value) != path.as_ref();
        if !is_given && facts.get(&Fact::Repository).is_some_and(is_other) {
            facts.retain(|fact, found| {
                fact.is_of_commit() || *fact == Fact::OriginUrl || found.from == Source::Given
            });
        }
    }
    for fact in [Fact::CommitUrl, Fact::RepositoryUrl, Fact::OriginUrl] {
        if let Some(Found { value, .. }) = facts.get_mut(&fact) {
            *value = web_url(value).unwrap_or_else(|| HIDDEN_URL.to_owned());
        }
    }
    let Some(url) = facts.get(&Fact::RepositoryUrl).map(|found| found.value.clone()) else { return };
    let mut add = |fact, value: Option<String>| {
        if let Some(value) = value {
            let from = Source::Fact(Fact::RepositoryUrl);
            facts.entry(fact).or_insert(Found { value, from });
        }
    };
    add(Fact::Repository, repository_path(&url));
    add(Fact::Provider, Provider::from_url(&url).map(|provider| provider.as_str().to_owned()));
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given"),
            Self::WorkingCopy => f.write_str("working copy"),
            Self::Variable(name) => f.write_str(name),
            Self::Fact(fact) => f.write_str(fact.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn facts<const N: usize>(from: Source, facts: [(Fact, &str); N]) -> Facts {
        facts.map(|(fact, value)| (fact, Found { value: value.to_owned(), from })).into()
    }

    fn values(facts: &Facts) -> Vec<(Fact, &str)> {
        facts.iter().map(|(fact, found)| (*fact, found.value.as_str())).collect()
    }

    const CI: Source = Source::Variable("X");

    #[test]
    fn options_take_precedence_then_the_best_source_of_each_fact() {
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
        let (known, mismatch) = merge(given, &working_copy, &ci);
        assert_eq!(
            values(&known),
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
        assert_eq!(mismatch, None);

        // Another commit of the CI system: only the working copy's facts count.
        let mut other = ci;
        other.extend(facts(CI, [(Fact::Commit, TWO)]));
        let (known, mismatch) = merge(Facts::new(), &working_copy, &other);
        assert_eq!(
            values(&known),
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
        let mismatch = mismatch.unwrap();
        assert_eq!((mismatch.ci.value.as_str(), mismatch.tested.value.as_str()), (TWO, ONE));

        // Detected facts of another repository than the given one are ignored.
        let given = facts(Source::Given, [(Fact::Repository, "o/o"), (Fact::Provider, "bitbucket")]);
        let (known, _) = merge(given, &working_copy, &Facts::new());
        assert_eq!(values(&known).split_off(3), [(Fact::Repository, "o/o"), (Fact::Provider, "bitbucket")]);

        // Another given commit belongs to the same repository.
        let given = facts(Source::Given, [(Fact::Commit, ONE)]);
        let ci = facts(CI, [(Fact::Commit, TWO), (Fact::Branch, "c"), (Fact::Repository, "c/c")]);
        let (known, _) = merge(given, &Facts::new(), &ci);
        assert_eq!(values(&known), [(Fact::Commit, ONE), (Fact::Repository, "c/c")]);
    }
}
