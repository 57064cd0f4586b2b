//! Source repositories and their hosting providers.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{GitCommit, RepositoryName, Text, UrlText};

/// The values of `provider` in operation 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "they are names")]
pub enum Provider {
    Github,
    Gitlab,
    Bitbucket,
    AzureDevops,
    Circleci,
}

/// Text that is not a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider: expected github, gitlab, bitbucket, azure-devops or circleci")]
pub struct UnknownProvider;

/// `repo_info` of a JUnit attestation. Without `provider`, the provider is derived from the URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RepositoryInfo {
    /// The repository with its owners, for example `acme/cart`; also the key of operation 4.
    pub name: RepositoryName,
    /// The repository's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<UrlText>,
    /// The provider's own identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// The repository's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// The hosting provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 5] =
        [Self::Github, Self::Gitlab, Self::Bitbucket, Self::AzureDevops, Self::Circleci];

    /// The interface's spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Bitbucket => "bitbucket",
            Self::AzureDevops => "azure-devops",
            Self::Circleci => "circleci",
        }
    }

    /// Derives the provider from a label of the URL's host, so that `gitlab.example.com` is GitLab.
    #[must_use]
    pub fn from_url(url: &str) -> Option<Self> {
        let host = host(url)?.to_ascii_lowercase();
        if host == "dev.azure.com" || host == "ssh.dev.azure.com" || host.ends_with(".visualstudio.com") {
            return Some(Self::AzureDevops);
        }
        host.split('.').find_map(|word| word.parse().ok())
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(word: &str) -> Result<Self, UnknownProvider> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == word).ok_or(UnknownProvider)
    }
}

/// The provider after the name of a repository, for messages; empty if there is none.
#[must_use]
pub fn at_provider(provider: Option<Provider>) -> String {
    provider.map(|provider| format!(" at {}", provider.as_str())).unwrap_or_default()
}

impl RepositoryInfo {
    /// The explicit provider, or the one of the URL's host.
    #[must_use]
    pub fn provider(&self) -> Option<Provider> {
        self.provider.or_else(|| Provider::from_url(self.url.as_ref()?.as_str()))
    }
}

/// The page of a commit: its explicit URL, or the provider's page for it. `None` unless one of them is an http or
/// https URL.
#[must_use]
pub fn commit_url(repository: Option<&RepositoryInfo>, commit: &GitCommit) -> Option<String> {
    if let Some(explicit) = commit.url.as_ref().filter(|url| url.is_web()) {
        return Some(explicit.as_str().to_owned());
    }
    let (repository, sha) = (repository?, commit.sha1.as_ref()?);
    let url = repository.url.as_ref().filter(|url| url.is_web())?.as_str().trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    match repository.provider()? {
        Provider::Github | Provider::AzureDevops => Some(format!("{url}/commit/{sha}")),
        Provider::Gitlab => Some(format!("{url}/-/commit/{sha}")),
        Provider::Bitbucket => Some(format!("{url}/commits/{sha}")),
        Provider::Circleci => None,
    }
}

/// A stored repository with the name that an attestation gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRepository {
    /// The hosting provider; `None` if no attestation named it.
    pub provider: Option<Provider>,
    /// The repository's URL.
    pub url: Option<String>,
}

/// The repository that an attestation refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryMatch {
    /// The stored repository with this provider, or without one.
    Existing(Option<Provider>),
    /// The stored repository without a provider, which gets this provider.
    Adopted(Provider),
    /// A new repository of this provider.
    New(Option<Provider>),
}

/// Several stored repositories match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several providers have this repository: expected one of {}", .0.join(", "))]
pub struct AmbiguousRepository(Vec<&'static str>);

/// Finds the stored repository that an attestation refers to. A repository without a provider matches one with a
/// provider unless their URLs differ.
///
/// # Errors
///
/// [`AmbiguousRepository`] if `named` has no provider and several providers match.
pub fn match_repository(
    known: &[KnownRepository],
    named: &RepositoryInfo,
) -> Result<RepositoryMatch, AmbiguousRepository> {
    let url = named.url.as_ref().map(UrlText::as_str);
    let may_be =
        |known: &&KnownRepository| url.is_none() || known.url.is_none() || known.url.as_deref() == url;
    if let Some(provider) = named.provider() {
        if known.iter().any(|known| known.provider == Some(provider)) {
            return Ok(RepositoryMatch::Existing(Some(provider)));
        }
        let adopted = known.iter().filter(may_be).any(|known| known.provider.is_none());
        return Ok(if adopted {
            RepositoryMatch::Adopted(provider)
        } else {
            RepositoryMatch::New(Some(provider))
        });
    }
    if let Some(same) = known.iter().find(|known| url.is_some() && known.url.as_deref() == url) {
        return Ok(RepositoryMatch::Existing(same.provider));
    }
    let candidates: Vec<&KnownRepository> = known.iter().filter(may_be).collect();
    match candidates.as_slice() {
        [] => Ok(RepositoryMatch::New(None)),
        [only] => Ok(RepositoryMatch::Existing(only.provider)),
        several => Err(AmbiguousRepository(
            several.iter().filter_map(|k| k.provider).map(Provider::as_str).collect(),
        )),
    }
}

/// The host of a URL or of an scp-like git address (`git@github.com:acme/cart.git`).
fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    host.split(':').next().filter(|host| host.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(url: &str) -> RepositoryInfo {
        serde_json::from_value(serde_json::json!({"name": "acme/cart", "url": url})).unwrap()
    }

    #[test]
    fn provider_is_derived_from_the_host() {
        for (url, provider) in [
            ("https://github.com/acme/cart", Some(Provider::Github)),
            ("https://GitHub.com/acme/cart", Some(Provider::Github)),
            ("git@github.com:acme/cart.git", Some(Provider::Github)),
            ("ssh://git@gitlab.example.com:2222/acme/cart", Some(Provider::Gitlab)),
            ("https://x-token:s3cret@bitbucket.org/acme/cart", Some(Provider::Bitbucket)),
            ("https://dev.azure.com/acme/shop/_git/cart", Some(Provider::AzureDevops)),
            ("https://acme.visualstudio.com/shop/_git/cart", Some(Provider::AzureDevops)),
            ("https://app.circleci.com/x", Some(Provider::Circleci)),
            ("https://git.example.com/github.com/cart", None),
            ("https://notgithub.example.com/cart", None),
            ("github", None),
            ("", None),
        ] {
            assert_eq!(Provider::from_url(url), provider, "{url}");
        }
    }

    #[test]
    fn commit_page_follows_the_provider_and_is_always_http() {
        let sha = "a".repeat(40);
        for (url, explicit, page) in [
            ("https://github.com/acme/cart.git", None, Some("https://github.com/acme/cart/commit/SHA")),
            ("https://u:p@gitlab.com/acme/cart/", None, Some("https://gitlab.com/acme/cart/-/commit/SHA")),
            ("https://bitbucket.org/acme/cart", None, Some("https://bitbucket.org/acme/cart/commits/SHA")),
            (
                "https://bitbucket.org/acme/cart",
                Some("https://u:p@x.example.com/c"),
                Some("https://x.example.com/c"),
            ),
            (
                "https://github.com/a/b",
                Some("javascript:alert(1)"),
                Some("https://github.com/a/b/commit/SHA"),
            ),
            ("git@github.com:acme/cart.git", None, None),
            ("javascript:alert(1)//github.com", None, None),
            ("https://git.example.com/cart", None, None),
        ] {
            let commit = serde_json::from_value(serde_json::json!({"sha1": sha, "url": explicit})).unwrap();
            let expected = page.map(|page| page.replace("SHA", &sha));
            assert_eq!(commit_url(Some(&repository(url)), &commit), expected, "{url} {explicit:?}");
        }
    }

    #[test]
    fn repository_matches_by_provider_and_url() {
        let named = |provider: Option<&str>, url: Option<&str>| -> RepositoryInfo {
            serde_json::from_value(serde_json::json!({"name": "a/b", "provider": provider, "url": url}))
                .unwrap()
        };
        let known = |provider: Option<Provider>, url: Option<&str>| KnownRepository {
            provider,
            url: url.map(str::to_owned),
        };
        let (github, gitlab) = (Some(Provider::Github), Some(Provider::Gitlab));
        let (hub, corp) = (Some("https://github.com/a/b"), Some("https://git.corp.example/a/b"));
        let bare = || known(None, None);
        for (there, named, expected) in [
            (vec![], named(None, None), Ok(RepositoryMatch::New(None))),
            (vec![], named(None, hub), Ok(RepositoryMatch::New(github))),
            (vec![bare()], named(None, None), Ok(RepositoryMatch::Existing(None))),
            (vec![bare()], named(Some("github"), None), Ok(RepositoryMatch::Adopted(Provider::Github))),
            (vec![known(None, corp)], named(None, hub), Ok(RepositoryMatch::New(github))),
            (vec![known(None, corp)], named(None, corp), Ok(RepositoryMatch::Existing(None))),
            (vec![known(github, hub)], named(None, None), Ok(RepositoryMatch::Existing(github))),
            (vec![known(github, hub)], named(None, corp), Ok(RepositoryMatch::New(None))),
            (
                vec![known(github, hub), known(gitlab, None)],
                named(Some("gitlab"), None),
                Ok(RepositoryMatch::Existing(gitlab)),
            ),
            (
                vec![known(github, hub), known(None, corp)],
                named(None, corp),
                Ok(RepositoryMatch::Existing(None)),
            ),
        ] {
            assert_eq!(match_repository(&there, &named), expected, "{there:?} {named:?}");
        }
        let several =
            match_repository(&[known(github, None), known(gitlab, None)], &named(None, None)).unwrap_err();
        assert!(several.to_string().contains("expected one of github, gitlab"), "{several}");
    }
}
