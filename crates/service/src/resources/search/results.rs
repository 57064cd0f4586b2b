//! Searches environments, artifacts, pods, flows, repositories and trails by a text, for the page and the operation.

use model::Fingerprint;
use store::search::{Artifact, PodRun, SearchText, Trail};
use store::{AtMost, Error, Tenant};

/// Minimum number of hex digits of a digest or commit.
pub(crate) const MIN_DIGITS: usize = 7;

/// Maximum length of a search text, in characters. Longer names of images match by this prefix.
pub(crate) const MAX_QUERY_CHARS: usize = 255;

pub(crate) struct SearchResults {
    pub(crate) environments: AtMost<String>,
    pub(crate) digests: AtMost<Artifact>,
    /// Commits, and the artifacts that were built from them.
    pub(crate) built: AtMost<(String, Fingerprint)>,
    pub(crate) trails_of_commits: AtMost<Trail>,
    pub(crate) images: AtMost<Artifact>,
    pub(crate) pods: AtMost<PodRun>,
    pub(crate) flows: AtMost<String>,
    pub(crate) repositories: AtMost<String>,
    pub(crate) trails: AtMost<Trail>,
}

impl SearchResults {
    pub(crate) async fn read(tenant: &mut Tenant<'_>, query: &str) -> Result<Self, Error> {
        let text = SearchText::new(query);
        let mut found = Self {
            environments: store::search::environments(tenant, &text).await?,
            digests: AtMost::default(),
            built: AtMost::default(),
            trails_of_commits: AtMost::default(),
            images: store::search::images(tenant, &text).await?,
            pods: store::search::pods(tenant, &text).await?,
            flows: store::search::flows(tenant, &text).await?,
            repositories: store::search::repositories(tenant, &text).await?,
            trails: AtMost::default(),
        };
        if let Some((first, last)) = digest(query).and_then(|digits| Fingerprint::range(&digits)) {
            found.digests = store::search::artifacts(tenant, first, last).await?;
        }
        if let Some(commit) = digits(query) {
            found.built = store::search::artifacts_of_commit(tenant, &commit, None).await?;
            found.trails_of_commits = store::search::trails_of_commit(tenant, &commit).await?;
        }
        // A trail may be named by its commit.
        let of_commits = &found.trails_of_commits.listed;
        found.trails = store::search::trails(tenant, &text, of_commits).await?;
        Ok(found)
    }
}

/// The digits of a digest or its prefix: with or without `sha256:`, shortened like on pages, or after an image and `@`.
fn digest(query: &str) -> Option<String> {
    let query = query.rsplit_once('@').map_or(query, |(_, digest)| digest).trim_end_matches('…');
    digits(query.strip_prefix("sha256:").unwrap_or(query))
}

/// Hex digits in lower case, if there are enough for a search.
fn digits(query: &str) -> Option<String> {
    let is_enough = (MIN_DIGITS..=64).contains(&query.len()) && query.bytes().all(|b| b.is_ascii_hexdigit());
    is_enough.then(|| query.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_needs_seven_digits_with_or_without_algorithm() {
        for (query, expected) in [
            ("abcdef0", Some("abcdef0")),
            ("sha256:ABCDEF0", Some("abcdef0")),
            ("registry.example.com/cart@sha256:abcdef01", Some("abcdef01")),
            ("abcdef012345…", Some("abcdef012345")),
            ("abcdef", None),
            ("sha256:abcdef", None),
            ("abcdefg", None),
            ("sha512:abcdef0", None),
            ("", None),
        ] {
            assert_eq!(digest(query).as_deref(), expected, "{query}");
        }
        assert!(digest(&"a".repeat(64)).is_some() && digest(&"a".repeat(65)).is_none());
    }
}
