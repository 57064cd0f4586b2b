//! Reads facts from the environment variables of CI systems.
//!
//! The table has a row for each system: the variable that identifies it, and the source of each fact.

use super::{Fact, Facts, Found, Source};
use model::{is_commit_hash, repository_page};

struct System {
    /// The variable that identifies the system.
    marker: &'static str,
    /// The sources of each fact; the first that exists counts.
    facts: &'static [(Fact, Pattern)],
}

/// Derives the value of a fact from variables.
#[derive(Clone, Copy)]
enum Pattern {
    Variable(&'static str),
    /// A branch, with or without `refs/heads/`; another ref is none.
    Head(&'static str),
    /// The value of a variable without this prefix.
    WithoutPrefix(&'static str, &'static str),
    /// A text with variables in braces.
    Template(&'static str),
    /// The value of a variable, unless another variable is set.
    Unless(&'static str, &'static str),
    /// A constant, if a variable has a certain value.
    ConstantIf(&'static str, &'static str, &'static str),
    Constant(&'static str),
    /// A constant, unless a variable is set.
    ConstantUnless(&'static str, &'static str),
}

use Fact::{
    Author, AuthorUsername, Branch, Commit, Message, OriginUrl, Provider, Repository, RepositoryDescription,
    RepositoryId, RepositoryUrl, Timestamp,
};
use Pattern::{Constant, ConstantIf, ConstantUnless, Head, Template, Unless, Variable, WithoutPrefix};

/// The predefined variables of each system, by its documentation.
const SYSTEMS: [System; 9] = [
    // GitHub Actions and compatible systems.
    System {
        marker: "GITHUB_ACTIONS",
        facts: &[
            (Commit, Variable("GITHUB_SHA")),
            (Branch, Variable("GITHUB_HEAD_REF")),
            (Branch, Head("GITHUB_REF")),
            (Repository, Variable("GITHUB_REPOSITORY")),
            (RepositoryUrl, Template("{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}")),
            (RepositoryId, Variable("GITHUB_REPOSITORY_ID")),
            (Provider, ConstantUnless("github", "GITEA_ACTIONS")),
            (OriginUrl, Template("{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}")),
        ],
    },
    System {
        marker: "GITLAB_CI",
        facts: &[
            (Commit, Variable("CI_COMMIT_SHA")),
            (Branch, Variable("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")),
            (Branch, Variable("CI_COMMIT_BRANCH")),
            (Author, Variable("CI_COMMIT_AUTHOR")),
            (Message, Variable("CI_COMMIT_MESSAGE")),
            (Timestamp, Variable("CI_COMMIT_TIMESTAMP")),
            (Repository, Variable("CI_PROJECT_PATH")),
            (RepositoryUrl, Variable("CI_PROJECT_URL")),
            (RepositoryId, Variable("CI_PROJECT_ID")),
            (RepositoryDescription, Variable("CI_PROJECT_DESCRIPTION")),
            (Provider, Constant("gitlab")),
            (OriginUrl, Variable("CI_JOB_URL")),
        ],
    },
    System {
        marker: "BITBUCKET_BUILD_NUMBER",
        facts: &[
            (Commit, Variable("BITBUCKET_COMMIT")),
            (Branch, Variable("BITBUCKET_BRANCH")),
            (Repository, Variable("BITBUCKET_REPO_FULL_NAME")),
            (RepositoryUrl, Template("https://bitbucket.org/{BITBUCKET_REPO_FULL_NAME}")),
            (RepositoryId, Variable("BITBUCKET_REPO_UUID")),
            (Provider, Constant("bitbucket")),
            (
                OriginUrl,
                Template(
                    "https://bitbucket.org/{BITBUCKET_REPO_FULL_NAME}/pipelines/results/{BITBUCKET_BUILD_NUMBER}",
                ),
            ),
        ],
    },
    System {
        marker: "TF_BUILD",
        facts: &[
            (Commit, Variable("BUILD_SOURCEVERSION")),
            // Of a pull request at another provider without refs/heads/.
            (Branch, Head("SYSTEM_PULLREQUEST_SOURCEBRANCH")),
            (Branch, Head("BUILD_SOURCEBRANCH")),
            (RepositoryUrl, Variable("BUILD_REPOSITORY_URI")),
            (RepositoryId, Variable("BUILD_REPOSITORY_ID")),
            (Provider, ConstantIf("BUILD_REPOSITORY_PROVIDER", "TfsGit", "azure-devops")),
            (Provider, ConstantIf("BUILD_REPOSITORY_PROVIDER", "GitHub", "github")),
            (Provider, ConstantIf("BUILD_REPOSITORY_PROVIDER", "GitHubEnterprise", "github")),
            (Provider, ConstantIf("BUILD_REPOSITORY_PROVIDER", "Bitbucket", "bitbucket")),
            (
                OriginUrl,
                Template(
                    "{SYSTEM_COLLECTIONURI}{SYSTEM_TEAMPROJECTID}/_build/results?buildId={BUILD_BUILDID}",
                ),
            ),
        ],
    },
    System {
        marker: "CIRCLECI",
        facts: &[
            (Commit, Variable("CIRCLE_SHA1")),
            (Branch, Variable("CIRCLE_BRANCH")),
            (Repository, Template("{CIRCLE_PROJECT_USERNAME}/{CIRCLE_PROJECT_REPONAME}")),
            (RepositoryUrl, Variable("CIRCLE_REPOSITORY_URL")),
            (OriginUrl, Variable("CIRCLE_BUILD_URL")),
        ],
    },
    System {
        marker: "BUILDKITE",
        facts: &[
            (Commit, Variable("BUILDKITE_COMMIT")),
            (Branch, Unless("BUILDKITE_BRANCH", "BUILDKITE_TAG")),
            (Message, Variable("BUILDKITE_MESSAGE")),
            (RepositoryUrl, Variable("BUILDKITE_REPO")),
            (OriginUrl, Variable("BUILDKITE_BUILD_URL")),
        ],
    },
    System {
        marker: "TRAVIS",
        facts: &[
            (Commit, Variable("TRAVIS_COMMIT")),
            (Branch, Variable("TRAVIS_PULL_REQUEST_BRANCH")),
            (Branch, Unless("TRAVIS_BRANCH", "TRAVIS_TAG")),
            (Message, Variable("TRAVIS_COMMIT_MESSAGE")),
            (Repository, Variable("TRAVIS_REPO_SLUG")),
            (OriginUrl, Variable("TRAVIS_BUILD_WEB_URL")),
        ],
    },
    System {
        marker: "DRONE",
        facts: &[
            (Commit, Variable("DRONE_COMMIT_SHA")),
            (Branch, Variable("DRONE_SOURCE_BRANCH")),
            (Branch, Unless("DRONE_BRANCH", "DRONE_TAG")),
            (Author, Template("{DRONE_COMMIT_AUTHOR_NAME} <{DRONE_COMMIT_AUTHOR_EMAIL}>")),
            (AuthorUsername, Variable("DRONE_COMMIT_AUTHOR")),
            (Message, Variable("DRONE_COMMIT_MESSAGE")),
            (Repository, Variable("DRONE_REPO")),
            (RepositoryUrl, Variable("DRONE_REPO_LINK")),
            (OriginUrl, Variable("DRONE_BUILD_LINK")),
        ],
    },
    // Last, because other systems may run in Jenkins or be started by it.
    System {
        marker: "JENKINS_URL",
        facts: &[
            (Commit, Variable("GIT_COMMIT")),
            (Branch, Variable("CHANGE_BRANCH")),
            (Branch, Variable("GIT_LOCAL_BRANCH")),
            (Branch, Unless("BRANCH_NAME", "TAG_NAME")),
            (Branch, WithoutPrefix("GIT_BRANCH", "origin/")),
            (RepositoryUrl, Variable("GIT_URL")),
            (OriginUrl, Variable("BUILD_URL")),
        ],
    },
];

/// The facts of the CI system that the process runs in. Empty variables count as unset.
#[must_use]
pub fn facts_from_ci(variable: impl Fn(&str) -> Option<String>) -> Facts {
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let mut facts = Facts::new();
    let Some(system) = SYSTEMS.iter().find(|system| variable(system.marker).is_some()) else { return facts };
    for (fact, pattern) in system.facts {
        let found = pattern.read(system.marker, &variable).and_then(|found| validated(*fact, found));
        if let Some(found) = found {
            facts.entry(*fact).or_insert(found);
        }
    }
    facts
}

/// Drops values that are no such fact: `HEAD` for a commit, a path for a URL.
fn validated(fact: Fact, found: Found) -> Option<Found> {
    let Found { value, from } = found;
    let value = match fact {
        Commit => Some(value).filter(|value| is_commit_hash(value)),
        RepositoryUrl => repository_page(&value),
        _ => Some(value),
    };
    value.map(|value| Found { value, from })
}

impl Pattern {
    fn read(self, marker: &'static str, variable: &impl Fn(&str) -> Option<String>) -> Option<Found> {
        let (name, value) = match self {
            Variable(name) => (name, variable(name)?),
            Head(name) => {
                let value = variable(name)?;
                let branch = value.strip_prefix("refs/heads/").unwrap_or(&value);
                (name, Some(branch).filter(|branch| !branch.starts_with("refs/"))?.to_owned())
            }
            WithoutPrefix(name, start) => (name, variable(name)?.strip_prefix(start)?.to_owned()),
            Unless(name, other) if variable(other).is_none() => (name, variable(name)?),
            ConstantIf(name, value, word) if variable(name)? == value => (name, word.to_owned()),
            Constant(word) => (marker, word.to_owned()),
            ConstantUnless(word, other) if variable(other).is_none() => (marker, word.to_owned()),
            Template(text) => expand(text, variable)?,
            Unless(..) | ConstantIf(..) | ConstantUnless(..) => return None,
        };
        Some(Found { value, from: Source::Variable(name) })
    }
}

/// Expands the variables of a template. Returns the last variable with the text.
fn expand(text: &'static str, variable: &impl Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
    let (mut expanded, mut last, mut rest) = (String::new(), "", text);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}')?;
        expanded.push_str(before);
        expanded.push_str(&variable(name)?);
        (last, rest) = (name, behind);
    }
    expanded.push_str(rest);
    Some((last, expanded))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";

    fn formatted(variables: &[(&str, &str)]) -> String {
        let value = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let facts = facts_from_ci(value);
        facts.iter().fold(String::new(), |text, (fact, Found { value, from })| {
            text + &format!("{}: {value} ({from})\n", fact.as_str())
        })
    }

    /// Variables and the expected facts.
    type Case = (&'static [(&'static str, &'static str)], &'static str);

    const CASES: &[Case] = &[
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
        // A tag has no branch, and Gitea is not GitHub.
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
                ("TF_BUILD", "True"),
                ("SYSTEM_PULLREQUEST_SOURCEBRANCH", "fix/x"),
                ("BUILD_SOURCEBRANCH", "refs/pull/7/merge"),
                ("BUILD_REPOSITORY_URI", "https://github.com/acme/cart"),
                ("BUILD_REPOSITORY_PROVIDER", "GitHub"),
            ],
            "branch: fix/x (SYSTEM_PULLREQUEST_SOURCEBRANCH)\n\
             repository's URL: https://github.com/acme/cart (BUILD_REPOSITORY_URI)\nprovider: github (BUILD_REPOSITORY_PROVIDER)\n",
        ),
        (
            &[("TF_BUILD", "True"), ("SYSTEM_PULLREQUEST_SOURCEBRANCH", "refs/heads/fix/x")],
            "branch: fix/x (SYSTEM_PULLREQUEST_SOURCEBRANCH)\n",
        ),
        (&[("TF_BUILD", "True"), ("BUILD_SOURCEBRANCH", "refs/pull/7/merge")], ""),
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
    fn facts_are_read_from_the_variables_of_each_system() {
        for (variables, expected) in CASES {
            assert_eq!(formatted(variables), expected.replace("SHA (", &format!("{SHA} (")), "{variables:?}");
        }
    }
}
