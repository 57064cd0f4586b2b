//! Where what was tested came from: the facts of commit and repository that an attestation holds.
//!
//! `attest` calls it with what it was given, what the working copy says and the variables of the
//! environment. Pure: text in, facts out. Each fact keeps where it was found, so that a person can be
//! shown it before it becomes evidence.

mod attested;
mod ci;
mod object;
mod remote;

pub use attested::{InvalidFact, Provenance, of_attestation};
pub use ci::found as of_ci;
pub use object::of_object;
pub use remote::{address, page, path};

use std::collections::BTreeMap;
use std::fmt;

use crate::domain::model::Provider;

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
}
