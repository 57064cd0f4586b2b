//! What CI systems say in the variables of their environment.
//!
//! A table: each system with the variable that tells it, and where each fact stands. A system that is
//! added is a row.

use super::{Fact, Facts, Found, Source, page};
use crate::domain::model::is_commit_hash;

/// A CI system.
struct System {
    /// The variable that it alone sets.
    sets: &'static str,
    /// Each fact, and how it is written; the first that is there counts.
    facts: &'static [(Fact, Written)],
}

/// How a fact is written.
#[derive(Clone, Copy)]
enum Written {
    /// A variable that holds it.
    Is(&'static str),
    /// What a variable holds behind this.
    Behind(&'static str, &'static str),
    /// A text with variables in braces.
    Of(&'static str),
    /// A variable, unless another is set.
    Unless(&'static str, &'static str),
    /// A word, where a variable has a certain value.
    Where(&'static str, &'static str, &'static str),
    /// A word.
    Word(&'static str),
    /// A word, unless a variable is set.
    WordUnless(&'static str, &'static str),
}

use Fact::{
    Author, AuthorUsername, Branch, Commit, Message, OriginUrl, Provider, Repository, RepositoryDescription,
    RepositoryId, RepositoryUrl, Timestamp,
};
use Written::{Behind, Is, Of, Unless, Where, Word, WordUnless};

/// The predefined variables of each system, as its documentation lists them.
const SYSTEMS: [System; 9] = [
    // GitHub Actions, and what is compatible with it.
    System {
        sets: "GITHUB_ACTIONS",
        facts: &[
            (Commit, Is("GITHUB_SHA")),
            (Branch, Is("GITHUB_HEAD_REF")),
            (Branch, Behind("GITHUB_REF", "refs/heads/")),
            (Repository, Is("GITHUB_REPOSITORY")),
            (RepositoryUrl, Of("{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}")),
            (RepositoryId, Is("GITHUB_REPOSITORY_ID")),
            (Provider, WordUnless("github", "GITEA_ACTIONS")),
            (OriginUrl, Of("{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}")),
        ],
    },
    System {
        sets: "GITLAB_CI",
        facts: &[
            (Commit, Is("CI_COMMIT_SHA")),
            (Branch, Is("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")),
            (Branch, Is("CI_COMMIT_BRANCH")),
            (Author, Is("CI_COMMIT_AUTHOR")),
            (Message, Is("CI_COMMIT_MESSAGE")),
            (Timestamp, Is("CI_COMMIT_TIMESTAMP")),
            (Repository, Is("CI_PROJECT_PATH")),
            (RepositoryUrl, Is("CI_PROJECT_URL")),
            (RepositoryId, Is("CI_PROJECT_ID")),
            (RepositoryDescription, Is("CI_PROJECT_DESCRIPTION")),
            (Provider, Word("gitlab")),
            (OriginUrl, Is("CI_JOB_URL")),
        ],
    },
    System {
        sets: "BITBUCKET_BUILD_NUMBER",
        facts: &[
            (Commit, Is("BITBUCKET_COMMIT")),
            (Branch, Is("BITBUCKET_BRANCH")),
            (Repository, Is("BITBUCKET_REPO_FULL_NAME")),
            (RepositoryUrl, Of("https://bitbucket.org/{BITBUCKET_REPO_FULL_NAME}")),
            (RepositoryId, Is("BITBUCKET_REPO_UUID")),
            (Provider, Word("bitbucket")),
            (
                OriginUrl,
                Of(
                    "https://bitbucket.org/{BITBUCKET_REPO_FULL_NAME}/pipelines/results/{BITBUCKET_BUILD_NUMBER}",
                ),
            ),
        ],
    },
    System {
        sets: "TF_BUILD",
        facts: &[
            (Commit, Is("BUILD_SOURCEVERSION")),
            (Branch, Behind("SYSTEM_PULLREQUEST_SOURCEBRANCH", "refs/heads/")),
            (Branch, Behind("BUILD_SOURCEBRANCH", "refs/heads/")),
            (RepositoryUrl, Is("BUILD_REPOSITORY_URI")),
            (RepositoryId, Is("BUILD_REPOSITORY_ID")),
            (Provider, Where("BUILD_REPOSITORY_PROVIDER", "TfsGit", "azure-devops")),
            (Provider, Where("BUILD_REPOSITORY_PROVIDER", "GitHub", "github")),
            (Provider, Where("BUILD_REPOSITORY_PROVIDER", "GitHubEnterprise", "github")),
            (Provider, Where("BUILD_REPOSITORY_PROVIDER", "Bitbucket", "bitbucket")),
            (
                OriginUrl,
                Of("{SYSTEM_COLLECTIONURI}{SYSTEM_TEAMPROJECTID}/_build/results?buildId={BUILD_BUILDID}"),
            ),
        ],
    },
    System {
        sets: "CIRCLECI",
        facts: &[
            (Commit, Is("CIRCLE_SHA1")),
            (Branch, Is("CIRCLE_BRANCH")),
            (Repository, Of("{CIRCLE_PROJECT_USERNAME}/{CIRCLE_PROJECT_REPONAME}")),
            (RepositoryUrl, Is("CIRCLE_REPOSITORY_URL")),
            (OriginUrl, Is("CIRCLE_BUILD_URL")),
        ],
    },
    System {
        sets: "BUILDKITE",
        facts: &[
            (Commit, Is("BUILDKITE_COMMIT")),
            (Branch, Unless("BUILDKITE_BRANCH", "BUILDKITE_TAG")),
            (Message, Is("BUILDKITE_MESSAGE")),
            (RepositoryUrl, Is("BUILDKITE_REPO")),
            (OriginUrl, Is("BUILDKITE_BUILD_URL")),
        ],
    },
    System {
        sets: "TRAVIS",
        facts: &[
            (Commit, Is("TRAVIS_COMMIT")),
            (Branch, Is("TRAVIS_PULL_REQUEST_BRANCH")),
            (Branch, Unless("TRAVIS_BRANCH", "TRAVIS_TAG")),
            (Message, Is("TRAVIS_COMMIT_MESSAGE")),
            (Repository, Is("TRAVIS_REPO_SLUG")),
            (OriginUrl, Is("TRAVIS_BUILD_WEB_URL")),
        ],
    },
    System {
        sets: "DRONE",
        facts: &[
            (Commit, Is("DRONE_COMMIT_SHA")),
            (Branch, Is("DRONE_SOURCE_BRANCH")),
            (Branch, Unless("DRONE_BRANCH", "DRONE_TAG")),
            (Author, Of("{DRONE_COMMIT_AUTHOR_NAME} <{DRONE_COMMIT_AUTHOR_EMAIL}>")),
            (AuthorUsername, Is("DRONE_COMMIT_AUTHOR")),
            (Message, Is("DRONE_COMMIT_MESSAGE")),
            (Repository, Is("DRONE_REPO")),
            (RepositoryUrl, Is("DRONE_REPO_LINK")),
            (OriginUrl, Is("DRONE_BUILD_LINK")),
        ],
    },
    // Last: others run in it, or are run by it.
    System {
        sets: "JENKINS_URL",
        facts: &[
            (Commit, Is("GIT_COMMIT")),
            (Branch, Is("CHANGE_BRANCH")),
            (Branch, Is("GIT_LOCAL_BRANCH")),
            (Branch, Unless("BRANCH_NAME", "TAG_NAME")),
            (Branch, Behind("GIT_BRANCH", "origin/")),
            (RepositoryUrl, Is("GIT_URL")),
            (OriginUrl, Is("BUILD_URL")),
        ],
    },
];

/// What the CI system says that this runs in; nothing elsewhere. An empty variable is one that is not set.
#[must_use]
pub fn found(variable: impl Fn(&str) -> Option<String>) -> Facts {
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let mut facts = Facts::new();
    let Some(system) = SYSTEMS.iter().find(|system| variable(system.sets).is_some()) else { return facts };
    for (fact, written) in system.facts {
        let found = written.read(system.sets, &variable).and_then(|found| sound(*fact, found));
        if let Some(found) = found {
            facts.entry(*fact).or_insert(found);
        }
    }
    facts
}

/// What may stand in a variable and is no such fact is left out: `HEAD` for a commit, a path for a URL.
fn sound(fact: Fact, found: Found) -> Option<Found> {
    let Found { value, from } = found;
    let value = match fact {
        Commit => Some(value).filter(|value| is_commit_hash(value)),
        RepositoryUrl => page(&value),
        _ => Some(value),
    };
    value.map(|value| Found { value, from })
}

impl Written {
    fn read(self, sets: &'static str, variable: &impl Fn(&str) -> Option<String>) -> Option<Found> {
        let (name, value) = match self {
            Is(name) => (name, variable(name)?),
            Behind(name, start) => (name, variable(name)?.strip_prefix(start)?.to_owned()),
            Unless(name, other) if variable(other).is_none() => (name, variable(name)?),
            Where(name, value, word) if variable(name)? == value => (name, word.to_owned()),
            Word(word) => (sets, word.to_owned()),
            WordUnless(word, other) if variable(other).is_none() => (sets, word.to_owned()),
            Of(text) => filled(text, variable)?,
            Unless(..) | Where(..) | WordUnless(..) => return None,
        };
        Some(Found { value, from: Source::Variable(name) })
    }
}

/// The text with its variables filled in, and the last of them.
fn filled(text: &'static str, variable: &impl Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
    let (mut filled, mut last, mut rest) = (String::new(), "", text);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}')?;
        filled.push_str(before);
        filled.push_str(&variable(name)?);
        (last, rest) = (name, behind);
    }
    filled.push_str(rest);
    Some((last, filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";

    fn said(variables: &[(&str, &str)]) -> String {
        let value = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let facts = found(value);
        facts.iter().fold(String::new(), |said, (fact, Found { value, from })| {
            said + &format!("{}: {value} ({from})\n", fact.words())
        })
    }

    /// Variables, and the facts that they tell.
    type Says = (&'static [(&'static str, &'static str)], &'static str);

    const SAID: &[Says] = &[
        (
            &[
                ("GITHUB_ACTIONS", "true"),
                ("GITHUB_SHA", SHA),
                ("GITHUB_HEAD_REF", ""),
                ("GITHUB_REF", "refs/heads/fix/x"),
                ("GITHUB_REPOSITORY", "acme/cart"),
                ("GITHUB_SERVER_URL", "https://github.com"),
                ("GITHUB_REPOSITORY_ID", "7"),
                ("GITHUB_RUN_ID", "12"),
                ("CI_COMMIT_SHA", "x"),
            ],
            "commit: SHA (GITHUB_SHA)\nbranch: fix/x (GITHUB_REF)\nrepository: acme/cart (GITHUB_REPOSITORY)\n\
                 repository's URL: https://github.com/acme/cart (GITHUB_REPOSITORY)\nrepository's id: 7 (GITHUB_REPOSITORY_ID)\n\
                 provider: github (GITHUB_ACTIONS)\norigin: https://github.com/acme/cart/actions/runs/12 (GITHUB_RUN_ID)\n",
        ),
        // Of a tag there is no branch, and elsewhere it is not GitHub.
        (
            &[
                ("GITHUB_ACTIONS", "true"),
                ("GITEA_ACTIONS", "true"),
                ("GITHUB_REF", "refs/tags/v1"),
                ("GITHUB_SHA", SHA),
            ],
            "commit: SHA (GITHUB_SHA)\n",
        ),
        (
            &[
                ("GITLAB_CI", "true"),
                ("CI_COMMIT_SHA", SHA),
                ("CI_COMMIT_BRANCH", "main"),
                ("CI_COMMIT_AUTHOR", "Jo <jo@example.com>"),
                ("CI_COMMIT_MESSAGE", "Count"),
                ("CI_COMMIT_TIMESTAMP", "2026-09-15T12:00:00+02:00"),
                ("CI_PROJECT_PATH", "acme/cart"),
                ("CI_PROJECT_URL", "https://git.example.com/acme/cart"),
                ("CI_PROJECT_ID", "7"),
                ("CI_JOB_URL", "https://git.example.com/acme/cart/-/jobs/1"),
            ],
            "commit: SHA (CI_COMMIT_SHA)\nbranch: main (CI_COMMIT_BRANCH)\nauthor: Jo <jo@example.com> (CI_COMMIT_AUTHOR)\n\
                 message: Count (CI_COMMIT_MESSAGE)\ntime of the commit: 2026-09-15T12:00:00+02:00 (CI_COMMIT_TIMESTAMP)\n\
                 repository: acme/cart (CI_PROJECT_PATH)\nrepository's URL: https://git.example.com/acme/cart (CI_PROJECT_URL)\n\
                 repository's id: 7 (CI_PROJECT_ID)\nprovider: gitlab (GITLAB_CI)\norigin: https://git.example.com/acme/cart/-/jobs/1 (CI_JOB_URL)\n",
        ),
        (
            &[
                ("BITBUCKET_BUILD_NUMBER", "3"),
                ("BITBUCKET_COMMIT", SHA),
                ("BITBUCKET_BRANCH", "main"),
                ("BITBUCKET_REPO_FULL_NAME", "acme/cart"),
            ],
            "commit: SHA (BITBUCKET_COMMIT)\nbranch: main (BITBUCKET_BRANCH)\nrepository: acme/cart (BITBUCKET_REPO_FULL_NAME)\n\
                 repository's URL: https://bitbucket.org/acme/cart (BITBUCKET_REPO_FULL_NAME)\nprovider: bitbucket (BITBUCKET_BUILD_NUMBER)\n\
                 origin: https://bitbucket.org/acme/cart/pipelines/results/3 (BITBUCKET_BUILD_NUMBER)\n",
        ),
        (
            &[
                ("TF_BUILD", "True"),
                ("BUILD_SOURCEVERSION", SHA),
                ("BUILD_SOURCEBRANCH", "refs/heads/main"),
                ("BUILD_REPOSITORY_URI", "https://acme@dev.azure.com/acme/shop/_git/cart"),
                ("BUILD_REPOSITORY_PROVIDER", "TfsGit"),
                ("SYSTEM_COLLECTIONURI", "https://dev.azure.com/acme/"),
                ("SYSTEM_TEAMPROJECTID", "p1"),
                ("BUILD_BUILDID", "9"),
            ],
            "commit: SHA (BUILD_SOURCEVERSION)\nbranch: main (BUILD_SOURCEBRANCH)\n\
                 repository's URL: https://dev.azure.com/acme/shop/_git/cart (BUILD_REPOSITORY_URI)\n\
                 provider: azure-devops (BUILD_REPOSITORY_PROVIDER)\norigin: https://dev.azure.com/acme/p1/_build/results?buildId=9 (BUILD_BUILDID)\n",
        ),
        (
            &[
                ("CIRCLECI", "true"),
                ("CIRCLE_SHA1", SHA),
                ("CIRCLE_PROJECT_USERNAME", "acme"),
                ("CIRCLE_PROJECT_REPONAME", "cart"),
                ("CIRCLE_REPOSITORY_URL", "git@github.com:acme/cart.git"),
            ],
            "commit: SHA (CIRCLE_SHA1)\nrepository: acme/cart (CIRCLE_PROJECT_REPONAME)\nrepository's URL: https://github.com/acme/cart (CIRCLE_REPOSITORY_URL)\n",
        ),
        (
            &[
                ("BUILDKITE", "true"),
                ("BUILDKITE_COMMIT", "HEAD"),
                ("BUILDKITE_BRANCH", "v1"),
                ("BUILDKITE_TAG", "v1"),
                ("BUILDKITE_REPO", "/srv/cart.git"),
                ("BUILDKITE_BUILD_URL", "https://b.example.com"),
            ],
            "origin: https://b.example.com (BUILDKITE_BUILD_URL)\n",
        ),
        (
            &[
                ("TRAVIS", "true"),
                ("TRAVIS_COMMIT", SHA),
                ("TRAVIS_BRANCH", "main"),
                ("TRAVIS_REPO_SLUG", "acme/cart"),
            ],
            "commit: SHA (TRAVIS_COMMIT)\nbranch: main (TRAVIS_BRANCH)\nrepository: acme/cart (TRAVIS_REPO_SLUG)\n",
        ),
        (
            &[
                ("DRONE", "true"),
                ("DRONE_COMMIT_SHA", SHA),
                ("DRONE_COMMIT_AUTHOR", "jo"),
                ("DRONE_COMMIT_AUTHOR_NAME", "Jo"),
                ("DRONE_COMMIT_AUTHOR_EMAIL", "j@x.example"),
                ("DRONE_REPO_LINK", "https://d.example.com/acme/cart"),
            ],
            "commit: SHA (DRONE_COMMIT_SHA)\nauthor: Jo <j@x.example> (DRONE_COMMIT_AUTHOR_EMAIL)\nauthor's username: jo (DRONE_COMMIT_AUTHOR)\nrepository's URL: https://d.example.com/acme/cart (DRONE_REPO_LINK)\n",
        ),
        (
            &[
                ("JENKINS_URL", "https://j.example.com"),
                ("GIT_COMMIT", SHA),
                ("CHANGE_BRANCH", "fix"),
                ("BRANCH_NAME", "PR-1"),
                ("GIT_URL", "git@github.com:acme/cart.git"),
                ("BUILD_URL", "https://j.example.com/1"),
            ],
            "commit: SHA (GIT_COMMIT)\nbranch: fix (CHANGE_BRANCH)\nrepository's URL: https://github.com/acme/cart (GIT_URL)\norigin: https://j.example.com/1 (BUILD_URL)\n",
        ),
        (
            &[("JENKINS_URL", "https://j.example.com"), ("GIT_BRANCH", "origin/fix/x")],
            "branch: fix/x (GIT_BRANCH)\n",
        ),
        (&[("CI", "true"), ("GITHUB_SHA", SHA)], ""),
    ];

    #[test]
    fn each_system_says_what_it_runs_for() {
        for (variables, expected) in SAID {
            assert_eq!(said(variables), expected.replace("SHA (", &format!("{SHA} (")), "{variables:?}");
        }
    }
}
