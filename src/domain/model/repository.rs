//! Where an artifact was built from: repositories and their hosts.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{GitCommit, RepositoryName, Text, UrlText};

/// The version-control providers that `provider` of operation 4 tells apart.
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

/// Text that names no provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such provider; one of github, gitlab, bitbucket, azure-devops and circleci was expected")]
pub struct UnknownProvider;

/// `repo_info` of a JUnit attestation; `provider` is taken from its URL where it is not said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RepositoryInfo {
    /// The repository with its owners, as `acme/cart`; the same that operation 4 asks for.
    pub name: RepositoryName,
    /// Where a person finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<UrlText>,
    /// The provider's own identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Who hosts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Github, Self::Gitlab, Self::Bitbucket, Self::AzureDevops, Self::Circleci];

    /// The interface's word for it.
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

    /// Whose host a repository's URL names: a word of the host, so that `gitlab.example.com` counts.
    #[must_use]
    pub fn of_url(url: &str) -> Option<Self> {
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

impl RepositoryInfo {
    /// The provider that is said, or that the URL's host tells.
    #[must_use]
    pub fn provider(&self) -> Option<Provider> {
        self.provider.or_else(|| Provider::of_url(self.url.as_ref()?.as_str()))
    }
}

/// The page of a commit: the one that is said, or that its provider is known to show it at. `None` where
/// neither is an address that a browser opens.
#[must_use]
pub fn commit_url(repository: Option<&RepositoryInfo>, commit: &GitCommit) -> Option<String> {
    if let Some(said) = commit.url.as_ref().filter(|url| url.is_web()) {
        return Some(said.as_str().to_owned());
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

/// A repository that is known by the name that an attestation gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Who hosts it; `None` where nobody has said.
    pub provider: Option<Provider>,
    /// Where it is.
    pub url: Option<String>,
}

/// Which repository an attestation means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// The known one of this provider, which may be none.
    Known(Option<Provider>),
    /// The known one without a provider: this is its provider.
    Adopted(Provider),
    /// One that is not known yet, of this provider.
    New(Option<Provider>),
}

/// A repository that could be any of several.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several providers have this repository; one of {} was expected", .0.join(", "))]
pub struct Ambiguous(Vec<&'static str>);

/// Which of the known repositories of its name `named` is. One whose provider nobody has said is the
/// same as one that has a provider as long as their URLs do not differ.
///
/// # Errors
///
/// [`Ambiguous`] where it says no provider and several have it.
pub fn meant(known: &[Known], named: &RepositoryInfo) -> Result<Meant, Ambiguous> {
    let url = named.url.as_ref().map(UrlText::as_str);
    let may_be = |known: &&Known| url.is_none() || known.url.is_none() || known.url.as_deref() == url;
    if let Some(provider) = named.provider() {
        if known.iter().any(|known| known.provider == Some(provider)) {
            return Ok(Meant::Known(Some(provider)));
        }
        let adopted = known.iter().filter(may_be).any(|known| known.provider.is_none());
        return Ok(if adopted { Meant::Adopted(provider) } else { Meant::New(Some(provider)) });
    }
    if let Some(same) = known.iter().find(|known| url.is_some() && known.url.as_deref() == url) {
        return Ok(Meant::Known(same.provider));
    }
    let candidates: Vec<&Known> = known.iter().filter(may_be).collect();
    match candidates.as_slice() {
        [] => Ok(Meant::New(None)),
        [only] => Ok(Meant::Known(only.provider)),
        several => Err(Ambiguous(several.iter().filter_map(|k| k.provider).map(Provider::as_str).collect())),
    }
}

/// The host of a URL, or of what git takes for one (`git@github.com:acme/cart.git`).
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
    fn a_url_s_host_tells_the_provider() {
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
            assert_eq!(Provider::of_url(url), provider, "{url}");
        }
    }

    #[test]
    fn a_commit_s_page_is_where_its_provider_shows_it_and_never_code() {
        let sha = "a".repeat(40);
        for (url, said, page) in [
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
            let commit = serde_json::from_value(serde_json::json!({"sha1": sha, "url": said})).unwrap();
            let expected = page.map(|page| page.replace("SHA", &sha));
            assert_eq!(commit_url(Some(&repository(url)), &commit), expected, "{url} {said:?}");
        }
    }

    #[test]
    fn a_name_means_the_repository_that_it_can_mean() {
        let named = |provider: Option<&str>, url: Option<&str>| -> RepositoryInfo {
            serde_json::from_value(serde_json::json!({"name": "a/b", "provider": provider, "url": url}))
                .unwrap()
        };
        let known =
            |provider: Option<Provider>, url: Option<&str>| Known { provider, url: url.map(str::to_owned) };
        let (github, gitlab) = (Some(Provider::Github), Some(Provider::Gitlab));
        let (hub, corp) = (Some("https://github.com/a/b"), Some("https://git.corp.example/a/b"));
        let bare = || known(None, None);
        for (there, named, expected) in [
            (vec![], named(None, None), Ok(Meant::New(None))),
            (vec![], named(None, hub), Ok(Meant::New(github))),
            (vec![bare()], named(None, None), Ok(Meant::Known(None))),
            (vec![bare()], named(Some("github"), None), Ok(Meant::Adopted(Provider::Github))),
            (vec![known(None, corp)], named(None, hub), Ok(Meant::New(github))),
            (vec![known(None, corp)], named(None, corp), Ok(Meant::Known(None))),
            (vec![known(github, hub)], named(None, None), Ok(Meant::Known(github))),
            (vec![known(github, hub)], named(None, corp), Ok(Meant::New(None))),
            (
                vec![known(github, hub), known(gitlab, None)],
                named(Some("gitlab"), None),
                Ok(Meant::Known(gitlab)),
            ),
            (vec![known(github, hub), known(None, corp)], named(None, corp), Ok(Meant::Known(None))),
        ] {
            assert_eq!(meant(&there, &named), expected, "{there:?} {named:?}");
        }
        let several = meant(&[known(github, None), known(gitlab, None)], &named(None, None)).unwrap_err();
        assert!(several.to_string().contains("one of github, gitlab"), "{several}");
    }
}
