//! Where an artifact was built from: repositories and their hosts.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{RepositoryName, Text};

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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RepositoryInfo {
    /// The repository with its owners, as `acme/cart`; the same that operation 4 asks for.
    pub name: RepositoryName,
    /// Where a person finds it.
    pub url: Option<Text>,
    /// The provider's own identifier.
    pub id: Option<Text>,
    /// What it is about.
    pub description: Option<Text>,
    /// Who hosts it.
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

    /// The URL without the user and password that a pipeline may have in it.
    #[must_use]
    pub fn public_url(&self) -> Option<String> {
        self.url.as_ref().map(|url| without_credentials(url.as_str()))
    }
}

/// The page of a commit at the repository's provider; `None` where the provider's scheme of
/// addresses is not known, or the URL is none that a browser opens.
#[must_use]
pub fn commit_url(repository: &RepositoryInfo, sha: &str) -> Option<String> {
    let url = repository.public_url()?;
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return None;
    }
    match repository.provider()? {
        Provider::Github | Provider::AzureDevops => Some(format!("{url}/commit/{sha}")),
        Provider::Gitlab => Some(format!("{url}/-/commit/{sha}")),
        Provider::Bitbucket => Some(format!("{url}/commits/{sha}")),
        Provider::Circleci => None,
    }
}

/// Cuts `user:password@` out of a URL.
fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
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
    fn a_commit_s_page_is_where_its_provider_shows_it_and_holds_no_credentials() {
        for (url, page) in [
            ("https://github.com/acme/cart.git", Some("https://github.com/acme/cart/commit/abc")),
            ("https://u:p@gitlab.com/acme/cart/", Some("https://gitlab.com/acme/cart/-/commit/abc")),
            ("https://bitbucket.org/acme/cart", Some("https://bitbucket.org/acme/cart/commits/abc")),
            ("git@github.com:acme/cart.git", None),
            ("javascript:alert(1)//github.com", None),
            ("https://git.example.com/cart", None),
        ] {
            assert_eq!(commit_url(&repository(url), "abc").as_deref(), page, "{url}");
        }
    }
}
