//! Providers that host source repositories.

use crate::checked_text;
use crate::escape::{Escaped, needs_escape};
use crate::repository::remote::provider_of_path;

checked_text! {
    /// A hosting provider. Operation 4 filters by the named ones; clients send any text.
    Provider, InvalidProvider, |text| {
        let is_valid = (1..=255).contains(&text.len()) && !text.contains(needs_escape);
        if is_valid { Ok(text) } else { Err(InvalidProvider) }
    }
}

/// Text that is too long for a provider, or has control or invisible characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid provider: expected 1 to 255 bytes without control or invisible characters")]
pub struct InvalidProvider;

impl Provider {
    /// The providers of operation 4.
    pub const NAMES: [&'static str; 5] = ["github", "gitlab", "bitbucket", "azure-devops", "circleci"];

    /// The providers with these names.
    #[must_use]
    pub fn named() -> [Self; 5] {
        Self::NAMES.map(|name| Self(name.to_owned()))
    }

    /// The provider of operation 4 that stands for the hosted and the self-managed service of one vendor.
    pub(super) fn family(&self) -> &str {
        match self.as_str() {
            "bitbucket_cloud" | "bitbucket_dc" => "bitbucket",
            "azure_devops_services" | "azure_devops_server" => "azure-devops",
            own => own,
        }
    }

    /// Whether the provider ignores the case of the names of repositories and their owners.
    pub(super) fn ignores_case(&self) -> bool {
        matches!(self.family(), "bitbucket" | "azure-devops")
    }

    /// Whether a filter by this provider matches a repository of `other`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self == other || self.as_str() == other.family()
    }

    /// Whether both may be names of one provider.
    #[must_use]
    pub fn may_be(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Derives the provider from the URL's host, or from its path.
    #[must_use]
    pub fn from_url(url: &str) -> Option<Self> {
        let name = Self::of_host(&host(url)?.to_ascii_lowercase()).or_else(|| provider_of_path(url));
        name.map(|name| Self(name.to_owned()))
    }

    /// The provider that a label of a host names, so that `gitlab.example.com` is GitLab.
    pub(super) fn of_host(host: &str) -> Option<&'static str> {
        if host == "dev.azure.com" || host == "ssh.dev.azure.com" || host.ends_with(".visualstudio.com") {
            return Some("azure-devops");
        }
        host.split('.').find_map(|label| Self::NAMES.into_iter().find(|name| *name == label))
    }
}

/// The provider after the name of a repository, for messages; empty if there is none.
#[must_use]
pub fn at_provider(provider: Option<&Provider>) -> String {
    provider.map(|provider| format!(" at {}", Escaped(provider.as_str()))).unwrap_or_default()
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

    #[test]
    fn provider_is_derived_from_the_host() {
        for (url, provider) in [
            ("https://github.com/acme/cart", Some("github")),
            ("https://GitHub.com/acme/cart", Some("github")),
            ("git@github.com:acme/cart.git", Some("github")),
            ("ssh://git@gitlab.example.com:2222/acme/cart", Some("gitlab")),
            ("https://x-token:s3cret@bitbucket.org/acme/cart", Some("bitbucket")),
            ("https://dev.azure.com/acme/shop/_git/cart", Some("azure-devops")),
            ("https://acme.visualstudio.com/shop/_git/cart", Some("azure-devops")),
            ("https://app.circleci.com/x", Some("circleci")),
            ("https://git.example.com/scm/pay/cart.git", Some("bitbucket")),
            ("https://git.example.com/projects/PAY/repos/cart", Some("bitbucket")),
            ("ssh://git@git.example.com:7999/pay/cart.git", Some("bitbucket")),
            ("https://tfs.example.com/Main/shop/_git/cart", Some("azure-devops")),
            ("https://git.example.com/github.com/cart", None),
            ("https://notgithub.example.com/cart", None),
            ("github", None),
            ("", None),
        ] {
            assert_eq!(Provider::from_url(url).as_ref().map(Provider::as_str), provider, "{url}");
        }
    }

    #[test]
    fn provider_of_the_interface_covers_the_services_of_its_vendor() {
        let covers = |filter: &str, of: &str| {
            filter.parse::<Provider>().unwrap().covers(&of.parse::<Provider>().unwrap())
        };
        for (filter, of, expected) in [
            ("github", "github", true),
            ("bitbucket", "bitbucket_cloud", true),
            ("bitbucket", "bitbucket_dc", true),
            ("bitbucket_cloud", "bitbucket_dc", false),
            ("bitbucket_cloud", "bitbucket", false),
            ("azure-devops", "azure_devops_services", true),
            ("azure-devops", "azure_devops_server", true),
            ("git", "git", true),
            ("git", "github", false),
        ] {
            assert_eq!(covers(filter, of), expected, "{filter} {of}");
        }
        for bad in ["", "a\nb", "git\u{200b}hub", &"a".repeat(256)] {
            assert_eq!(bad.parse::<Provider>(), Err(InvalidProvider), "{bad:?}");
        }
    }
}
