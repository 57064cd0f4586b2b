//! Source repositories, and how attestations refer to them.

pub(crate) mod commit;
pub(crate) mod provider;
pub(crate) mod remote;

use serde::{Deserialize, Deserializer, Serialize};

use crate::repository::remote::repository_page;
use crate::{FreeForm, GitCommit, Provider, RepositoryName, Text, UnknownFields, UrlText};

/// `repo_info` of an attestation. Without `provider`, the provider is derived from the URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RepositoryInfo {
    /// The repository with its owners, for example `acme/cart`; also the key of operation 4.
    pub name: RepositoryName,
    /// The repository's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<UrlText>,
    /// The provider's own identifier. It stays when the repository is renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// The repository's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// The hosting provider.
    #[serde(default, deserialize_with = "provider", skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The owners, outermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_path: Option<Vec<Text>>,
    /// Free-form data of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_info: Option<FreeForm>,
    /// Fields of newer clients.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub unknown: UnknownFields,
}

/// An empty provider counts as absent.
fn provider<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Provider>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    text.map(|text| text.parse()).transpose().map_err(serde::de::Error::custom)
}

impl RepositoryInfo {
    /// The explicit provider, or the one of the URL's host.
    #[must_use]
    pub fn provider(&self) -> Option<Provider> {
        self.provider.clone().or_else(|| Provider::from_url(self.url.as_ref()?.as_str()))
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
    let page = repository_page(repository.url.as_ref().filter(|url| url.is_web())?.as_str())?;
    match repository.provider()?.family() {
        "github" | "azure-devops" => Some(format!("{page}/commit/{sha}")),
        "gitlab" => Some(format!("{page}/-/commit/{sha}")),
        "bitbucket" => Some(format!("{page}/commits/{sha}")),
        _ => None,
    }
}

/// A stored repository with the name or the identifier that an attestation gives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "sqlx", derive(sqlx::FromRow))]
pub struct KnownRepository {
    /// Its key among the repositories of one name: the provider, or for a second repository of one
    /// name and provider, the provider and its identifier, `PROVIDER:ID`.
    #[cfg_attr(feature = "sqlx", sqlx(rename = "provider"))]
    pub key: String,
    /// The name of the first attestation that named it.
    pub name: String,
    pub url: Option<String>,
    /// The provider's own identifier.
    #[cfg_attr(feature = "sqlx", sqlx(rename = "external_id"))]
    pub id: Option<String>,
}

/// The repository that an attestation refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryMatch {
    /// The stored repository with this index.
    Existing(usize),
    /// The stored repository with this index, which gets this provider.
    Adopted(usize, Provider),
    /// A new repository with this key.
    New(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several providers have this repository: expected one of {}", .0.join(", "))]
pub struct AmbiguousRepository(Vec<String>);

impl KnownRepository {
    /// The hosting provider; `None` if no attestation named it.
    #[must_use]
    pub fn provider(&self) -> Option<Provider> {
        let id = self.id.as_deref().and_then(|id| self.key.strip_suffix(id)?.strip_suffix(':'));
        id.unwrap_or(&self.key).parse().ok()
    }

    /// The value of `provider` in operation 4 that selects only this one of the repositories with its name and provider.
    #[must_use]
    pub fn selector(&self) -> String {
        let provider = self.provider();
        let provider = provider.as_ref().map_or("", Provider::as_str);
        self.id.as_ref().map_or_else(|| provider.to_owned(), |id| format!("{provider}:{id}"))
    }

    /// Whether `provider` of operation 4 selects it.
    #[must_use]
    pub fn is_selected_by(&self, filter: &Provider) -> bool {
        self.selector() == filter.as_str() || self.provider().is_some_and(|provider| filter.covers(&provider))
    }

    /// Whether it is closed and would return under its name or its identifier.
    #[must_use]
    pub fn is_reopened_by(&self, named: &RepositoryInfo) -> bool {
        let has_id = self.id.is_some() && self.id.as_deref() == named.id.as_ref().map(Text::as_str);
        let may_have_provider = match (self.provider(), named.provider()) {
            (Some(one), Some(other)) => one.may_be(&other),
            (None, None) => true,
            _ => false,
        };
        may_have_provider && (self.has_name(named) || has_id)
    }

    /// Whether its provider ignores the case of names.
    #[must_use]
    pub fn ignores_case(&self) -> bool {
        self.provider().is_some_and(|provider| provider.ignores_case())
    }

    /// Whether it has the name that an attestation gives.
    fn has_name(&self, named: &RepositoryInfo) -> bool {
        let (own, given) = (self.name.as_str(), named.name.as_str());
        own == given
            || (self.ignores_case()
                && named.provider().is_some_and(|provider| provider.ignores_case())
                && own.to_lowercase() == given.to_lowercase())
    }

    /// Whether an attestation with this identifier cannot mean this repository.
    fn has_other_id(&self, named: &RepositoryInfo) -> bool {
        let named = named.id.as_ref().map(Text::as_str);
        self.id.as_deref().zip(named).is_some_and(|(known, named)| known != named)
    }
}

/// Finds the stored repository that an attestation refers to: the one with its provider and identifier, or else with its
/// provider and name. A repository without a provider matches one with a provider unless their URLs differ.
///
/// # Errors
///
/// [`AmbiguousRepository`] if `named` has no provider and several providers match.
pub fn match_repository(
    known: &[KnownRepository],
    named: &RepositoryInfo,
) -> Result<RepositoryMatch, AmbiguousRepository> {
    let provider = named.provider();
    let may_host = |known: &KnownRepository| {
        provider.as_ref().zip(known.provider()).is_some_and(|(one, other)| one.may_be(&other))
    };
    let id = named.id.as_ref().map(Text::as_str);
    if let Some(same) =
        known.iter().position(|known| id.is_some() && known.id.as_deref() == id && may_host(known))
    {
        return Ok(RepositoryMatch::Existing(same));
    }
    let url = named.url.as_ref().map(UrlText::as_str);
    let may_have_url =
        |known: &KnownRepository| url.is_none() || known.url.is_none() || known.url.as_deref() == url;
    let is_candidate = |known: &KnownRepository| known.has_name(named) && !known.has_other_id(named);
    let candidates: Vec<(usize, &KnownRepository)> =
        known.iter().enumerate().filter(|(_, known)| is_candidate(known)).collect();
    let find = |matches: &dyn Fn(&KnownRepository) -> bool| {
        candidates.iter().find(|(_, known)| matches(known)).map(|(index, _)| *index)
    };
    let new = |provider: &str| {
        let is_taken = known
            .iter()
            .any(|known| known.has_name(named) && known.has_other_id(named) && known.key == provider);
        let key =
            id.filter(|_| is_taken).map_or_else(|| provider.to_owned(), |id| format!("{provider}:{id}"));
        RepositoryMatch::New(key)
    };
    if let Some(provider) = &provider {
        let same = find(&|known| known.provider().as_ref() == Some(provider)).or_else(|| find(&may_host));
        if let Some(same) = same {
            return Ok(RepositoryMatch::Existing(same));
        }
        return Ok(match find(&|known| known.provider().is_none() && may_have_url(known)) {
            Some(adopted) => RepositoryMatch::Adopted(adopted, provider.clone()),
            None => new(provider.as_str()),
        });
    }
    if let Some(same) = find(&|known| url.is_some() && known.url.as_deref() == url) {
        return Ok(RepositoryMatch::Existing(same));
    }
    let candidates: Vec<_> = candidates.iter().filter(|(_, known)| may_have_url(known)).collect();
    match candidates.as_slice() {
        // A repository without a provider keeps its first URL.
        [] => Ok(find(&|known| known.key.is_empty()).map_or_else(|| new(""), RepositoryMatch::Existing)),
        [(only, _)] => Ok(RepositoryMatch::Existing(*only)),
        several => {
            let providers = several.iter().filter_map(|(_, known)| known.provider());
            Err(AmbiguousRepository(providers.map(|provider| provider.as_str().to_owned()).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(url: &str) -> RepositoryInfo {
        serde_json::from_value(serde_json::json!({"name": "acme/cart", "url": url})).unwrap()
    }

    #[test]
    fn commit_page_follows_the_provider_and_is_always_http() {
        let sha = "a".repeat(40);
        for (url, explicit, page) in [
            ("https://github.com/acme/cart.git", None, Some("https://github.com/acme/cart/commit/SHA")),
            ("https://u:p@gitlab.com/acme/cart/", None, Some("https://gitlab.com/acme/cart/-/commit/SHA")),
            ("https://bitbucket.org/acme/cart", None, Some("https://bitbucket.org/acme/cart/commits/SHA")),
            (
                "https://git.example.com/scm/pay/cart.git",
                None,
                Some("https://git.example.com/projects/pay/repos/cart/commits/SHA"),
            ),
            (
                "https://acme.visualstudio.com/DefaultCollection/shop/_git/cart",
                None,
                Some("https://dev.azure.com/acme/shop/_git/cart/commit/SHA"),
            ),
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

    fn named(provider: &str, id: &str, url: &str) -> RepositoryInfo {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let sent = serde_json::json!({
            "name": "a/b", "provider": given(provider), "id": given(id), "url": given(url),
        });
        serde_json::from_value(sent).unwrap()
    }

    fn known(key: &str, id: &str, url: &str) -> KnownRepository {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        KnownRepository { key: key.to_owned(), name: "a/b".to_owned(), url: given(url), id: given(id) }
    }

    const HUB: &str = "https://github.com/a/b";
    const CORP: &str = "https://git.corp.example/a/b";

    #[test]
    fn repository_matches_by_provider_and_url() {
        let new = |key: &str| Ok(RepositoryMatch::New(key.to_owned()));
        let existing = |index| Ok(RepositoryMatch::Existing(index));
        let adopted = |provider| Ok(RepositoryMatch::Adopted(0, provider));
        let (bare, hub) = (|| known("", "", ""), || known("github", "", HUB));
        for (there, named, expected) in [
            (vec![], named("", "", ""), new("")),
            (vec![], named("", "", HUB), new("github")),
            (vec![bare()], named("", "", ""), existing(0)),
            (vec![bare()], named("github", "", ""), adopted("github".parse().unwrap())),
            (vec![known("", "", CORP)], named("", "", HUB), new("github")),
            (vec![known("", "", CORP)], named("", "", CORP), existing(0)),
            (vec![hub()], named("", "", ""), existing(0)),
            (vec![hub()], named("", "", CORP), new("")),
            (vec![hub(), known("gitlab", "", "")], named("gitlab", "", ""), existing(1)),
            (vec![hub(), known("", "", CORP)], named("", "", CORP), existing(1)),
            (vec![hub()], named("forge", "", ""), new("forge")),
            (vec![known("bitbucket", "", "")], named("bitbucket_cloud", "", ""), existing(0)),
        ] {
            assert_eq!(match_repository(&there, &named), expected, "{there:?} {named:?}");
        }
        let several = match_repository(&[hub(), known("gitlab", "", "")], &named("", "", "")).unwrap_err();
        assert!(several.to_string().contains("expected one of github, gitlab"), "{several}");
    }

    #[test]
    fn case_of_a_name_counts_unless_the_provider_ignores_it() {
        for (key, provider, expected) in [
            ("bitbucket", "bitbucket", RepositoryMatch::Existing(0)),
            ("bitbucket_dc", "bitbucket", RepositoryMatch::Existing(0)),
            ("azure-devops", "azure_devops_services", RepositoryMatch::Existing(0)),
            ("github", "github", RepositoryMatch::New("github".to_owned())),
            ("", "bitbucket", RepositoryMatch::New("bitbucket".to_owned())),
            ("bitbucket", "", RepositoryMatch::New(String::new())),
        ] {
            let there = KnownRepository { name: "A/b".to_owned(), ..known(key, "", "") };
            let named = named(provider, "", "");
            assert_eq!(
                match_repository(std::slice::from_ref(&there), &named),
                Ok(expected),
                "{key} {provider}"
            );
            let is_same = there.has_name(&named);
            assert_eq!(there.is_reopened_by(&named), is_same, "{key} {provider}");
        }
    }

    #[test]
    fn identifier_and_provider_are_the_key_where_both_are_given() {
        let new = |key: &str| RepositoryMatch::New(key.to_owned());
        let renamed = |key, id| KnownRepository { name: "old/name".to_owned(), ..known(key, id, "") };
        for (there, named, expected) in [
            (vec![renamed("gitlab", "7")], named("gitlab", "7", ""), RepositoryMatch::Existing(0)),
            (vec![renamed("github", "7")], named("gitlab", "7", ""), new("gitlab")),
            (vec![known("gitlab", "7", "")], named("gitlab", "8", ""), new("gitlab:8")),
            (vec![known("gitlab", "7", "")], named("gitlab", "", ""), RepositoryMatch::Existing(0)),
            (vec![known("gitlab", "", "")], named("gitlab", "8", ""), RepositoryMatch::Existing(0)),
            (
                vec![known("gitlab", "7", ""), known("gitlab:8", "8", "")],
                named("gitlab", "8", ""),
                RepositoryMatch::Existing(1),
            ),
        ] {
            assert_eq!(match_repository(&there, &named), Ok(expected), "{there:?} {named:?}");
        }
        let second = known("azure_devops_server:8", "8", "");
        assert_eq!(second.provider(), Some("azure_devops_server".parse().unwrap()));
        for (filter, expected) in [("azure-devops", true), ("azure_devops_server:8", true), ("git", false)] {
            assert_eq!(second.is_selected_by(&filter.parse().unwrap()), expected, "{filter}");
        }
    }
}
