//! Ownership: the repositories and images that a flow declares as its own.
//!
//! Declared in the bootstrap file. The service checks each attestation before it is recorded. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use percent_encoding::percent_decode_str;

use model::escape::{Escaped, needs_escape};
use model::{Fingerprint, checked_text, decoded_name, repository_path};

checked_text! {
    /// A name in which `*` stands for any characters.
    Pattern, InvalidPattern, |text| {
        let is_valid = matches!(text.len(), 1..=255) && !text.contains(|c| needs_escape(c) || c == ' ');
        if is_valid { Ok(text) } else { Err(InvalidPattern) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern: expected 1 to 255 bytes without spaces, control or invisible characters")]
pub struct InvalidPattern;

/// The texts of an attestation that name a repository.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamedOrigin<'a> {
    pub repository: Option<&'a str>,
    /// The pages of the repository and of the commit.
    pub urls: [Option<&'a str>; 2],
}

/// The ownership of a flow, for the artifacts of one attestation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owned {
    /// Whether the flow owns repositories or images.
    pub is_owner: bool,
    /// The artifacts that ran under one of the flow's images.
    pub artifacts: BTreeSet<Fingerprint>,
}

impl Owned {
    /// The priority of the origin that the flow names for an artifact. The first of the highest priority counts.
    #[must_use]
    pub fn priority(&self, artifact: &Fingerprint) -> i64 {
        if self.artifacts.contains(artifact) { 2 } else { i64::from(self.is_owner) }
    }
}

/// The declaration of a flow. An empty list declares nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ownership {
    /// Names of repositories, in any case. Only flows that declare a repository may name it.
    pub repositories: Vec<Pattern>,
    /// Names of images without tag and digest. The flow attests only artifacts that ran under one of them. If an artifact
    /// did not run, this applies to the other digests of its image.
    pub images: Vec<Pattern>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnershipViolation {
    /// The flow declares other repositories.
    #[error("the flow does not declare the repository \"{}\"", Escaped(.0))]
    UndeclaredRepository(String),
    /// Other flows declare the repository.
    #[error("the repository \"{}\" belongs to another flow", Escaped(.0))]
    OwnedRepository(String),
    /// The artifact ran only under names that the flow does not declare.
    #[error("the flow does not declare the image \"{}\" of artifact {artifact}", Escaped(name))]
    UndeclaredImage {
        artifact: Fingerprint,
        /// One of its names.
        name: String,
    },
}

impl Ownership {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty() && self.images.is_empty()
    }

    /// Checks the names under which attested artifacts ran, and returns the artifacts that ran under declared ones.
    ///
    /// # Errors
    ///
    /// [`OwnershipViolation`] if an artifact ran, and only under other names.
    pub fn check_images<'a>(
        &self,
        names: impl IntoIterator<Item = (Fingerprint, &'a str)>,
    ) -> Result<BTreeSet<Fingerprint>, OwnershipViolation> {
        if self.images.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut by_artifact: BTreeMap<Fingerprint, Vec<&str>> = BTreeMap::new();
        for (artifact, name) in names {
            by_artifact.entry(artifact).or_default().push(name);
        }
        let is_declared = |name: &&str| any_matches(&self.images, without_tag(name));
        match by_artifact.iter().find(|(_, names)| !names.iter().any(is_declared)) {
            None => Ok(by_artifact.into_keys().collect()),
            Some((artifact, names)) => {
                let name = names.first().copied().unwrap_or_default().to_owned();
                Err(OwnershipViolation::UndeclaredImage { artifact: *artifact, name })
            }
        }
    }
}

/// Checks the repository that an attestation of a flow names, also by the URL of a page. `declared` has the flows with a
/// declaration.
///
/// # Errors
///
/// [`OwnershipViolation`] if the flow declares other repositories, or only other flows declare this one.
pub fn check_origin(
    flow: &str,
    origin: NamedOrigin<'_>,
    declared: &BTreeMap<String, Ownership>,
) -> Result<(), OwnershipViolation> {
    let own = declared.get(flow).map_or(&[][..], |own| &own.repositories);
    let is_owned = |name: &str| declared.values().any(|other| any_names(&other.repositories, name));
    if let Some(name) = origin.repository
        && !any_names(own, name)
    {
        if !own.is_empty() {
            return Err(OwnershipViolation::UndeclaredRepository(name.to_owned()));
        }
        if is_owned(name) {
            return Err(OwnershipViolation::OwnedRepository(name.to_owned()));
        }
    }
    for url in origin.urls.into_iter().flatten() {
        let names = names_in_url(url);
        if !names.iter().any(|name| any_names(own, name))
            && let Some(owned) = names.into_iter().find(|name| is_owned(name))
        {
            return Err(OwnershipViolation::OwnedRepository(owned));
        }
    }
    Ok(())
}

/// Maximum number of segments of a URL that are searched for the name of a repository.
const MAX_SEGMENTS: usize = 14;

/// The names of repositories that a URL may contain: each part of two or more segments. Servers put a prefix before the name,
/// and the page of a commit behind it.
fn names_in_url(url: &str) -> Vec<String> {
    let decoded = percent_decode_str(url.split(['?', '#']).next().unwrap_or_default()).decode_utf8_lossy();
    let mut segments = Vec::new();
    for segment in decoded.split(['/', ':', '\\']).take(4 * MAX_SEGMENTS) {
        match segment {
            // Azure DevOps inserts _git between project and repository.
            "" | "." | "_git" => {}
            ".." => _ = segments.pop(),
            segment => segments.push(segment),
        }
    }
    segments.truncate(MAX_SEGMENTS);
    let parts = (0..segments.len()).flat_map(|start| (start + 2..=segments.len()).map(move |end| start..end));
    let parts = parts.filter_map(|part| segments.get(part)).map(|part| part.join("/"));
    // Some servers have other words between the parts of a name, or the owner in the name of their host.
    parts.chain(repository_path(url)).collect()
}

/// Whether a name of a repository matches. Hosting providers ignore case and the suffix `.git`. A pattern has a space as
/// `%20`.
fn any_names(patterns: &[Pattern], name: &str) -> bool {
    let plain = |name: &str| {
        let name = decoded_name(name).to_lowercase();
        name.strip_suffix(".git").map(str::to_owned).unwrap_or(name)
    };
    let name = plain(name);
    patterns.iter().any(|Pattern(pattern)| Pattern(plain(pattern)).matches(&name))
}

fn any_matches(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

/// The name of an image without tag and digest.
fn without_tag(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        // A port is followed by a path.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    }
}

impl Pattern {
    /// Whether an image has a matching name, without its tag and digest.
    #[must_use]
    pub fn matches_image(&self, image: &str) -> bool {
        self.matches(without_tag(image))
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|start| name.strip_prefix(start)) else { return false };
        let Some(end) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else { return false };
            rest = after;
        }
        rest.ends_with(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn asterisk_matches_any_characters() {
        for (pattern, name, matches) in [
            ("acme/cart", "acme/cart", true),
            ("acme/cart", "acme/cart2", false),
            ("acme/cart", "my-acme/cart", false),
            ("acme/*", "acme/cart", true),
            ("acme/*", "acme/", true),
            ("acme/*", "acmee/cart", false),
            ("*", "", true),
            ("*/cart", "acme/cart", true),
            ("*/cart", "acme/carts", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("a**", "a", true),
        ] {
            assert_eq!(patterns(&[pattern])[0].matches(name), matches, "{pattern} {name}");
        }
        for invalid in ["", "a b", "a\nb", &"a".repeat(256)] {
            assert_eq!(invalid.parse::<Pattern>(), Err(InvalidPattern), "{invalid}");
        }
    }

    #[test]
    fn declared_repository_is_named_by_its_flows_only() {
        let owns = |repositories| Ownership { repositories: patterns(repositories), images: vec![] };
        let declared = BTreeMap::from([
            ("secure".to_owned(), owns(&["acme/secure", "acme/lib-*"])),
            ("scan".to_owned(), Ownership { repositories: vec![], images: patterns(&["*"]) }),
            ("both".to_owned(), owns(&["acme/lib-*"])),
        ]);
        let check = |flow, repository| {
            let origin = NamedOrigin { repository: Some(repository), ..NamedOrigin::default() };
            check_origin(flow, origin, &declared).map_err(|e| e.to_string())
        };
        for (flow, repository) in [
            ("secure", "acme/secure"),
            ("secure", "acme/lib-x"),
            ("both", "acme/lib-x"),
            ("cart", "acme/cart"),
            ("scan", "acme/cart"),
        ] {
            assert_eq!(check(flow, repository), Ok(()), "{flow} {repository}");
        }
        let undeclared = "the flow does not declare the repository \"acme/cart\"";
        assert_eq!(check("secure", "acme/cart"), Err(undeclared.into()));
        for flow in ["cart", "scan"] {
            let owned = "the repository \"acme/secure\" belongs to another flow";
            assert_eq!(check(flow, "acme/secure"), Err(owned.into()));
        }
        for other_form in ["Acme/SECURE", "acme/secure.git", "acme/Lib-x.GIT", "acme%2Fsecure"] {
            assert!(check("cart", other_form).is_err(), "{other_form}");
            assert_eq!(check("secure", other_form), Ok(()), "{other_form}");
        }
    }

    #[test]
    fn url_of_a_declared_repository_is_named_by_its_flows_only() {
        let owns = |repositories| Ownership { repositories: patterns(repositories), images: vec![] };
        let declared = BTreeMap::from([
            ("secure".to_owned(), owns(&["acme/secure"])),
            ("cart".to_owned(), owns(&["acme/cart"])),
        ]);
        let check =
            |flow, urls| check_origin(flow, NamedOrigin { repository: None, urls }, &declared).is_ok();
        for url in [
            "https://github.com/acme/secure",
            "https://github.com/Acme/Secure.git/",
            "https://user@github.com//acme//secure?tab=readme#top",
            "https://github.com/acme/%73ecure",
            "https://github.com/acme/x/../secure",
            "https://git.example.com/scm/acme/secure.git",
            "https://github.com/acme/secure/commit/1234",
            "git@github.com:acme/secure.git",
            "ssh://git@git.example.com:2222/acme/secure",
            "https:\\\\github.com\\acme\\secure",
            "https://gitlab.com/acme%2fsecure",
            "https://dev.azure.com/acme/_git/secure",
            "https://bitbucket.example.com/projects/ACME/repos/secure",
        ] {
            for flow in ["cart", "other"] {
                assert!(!check(flow, [Some(url), None]), "{flow} {url}");
                assert!(!check(flow, [None, Some(url)]), "{flow} {url}");
            }
            assert!(check("secure", [Some(url), Some(url)]), "{url}");
        }
        for url in [
            "https://github.com/acme/secure2",
            "https://github.com/acme",
            "https://x.example/secure",
            "x",
            "",
        ] {
            assert!(check("other", [Some(url), None]), "{url}");
        }
        let declared = BTreeMap::from([
            ("shop".to_owned(), owns(&["acme/Web%20Shop/*"])),
            ("cart".to_owned(), owns(&["x/y"])),
        ]);
        for url in [
            "https://acme.visualstudio.com/Web%20Shop/_git/secure",
            "https://acme.visualstudio.com/DefaultCollection/Web%20Shop/_git/secure",
            "git@ssh.dev.azure.com:v3/acme/Web%20Shop/secure",
        ] {
            let origin = NamedOrigin { repository: None, urls: [Some(url), None] };
            assert!(check_origin("cart", origin, &declared).is_err(), "{url}");
            assert_eq!(check_origin("shop", origin, &declared), Ok(()), "{url}");
        }
        let long = format!("https://x.example/{}acme/secure", "a/".repeat(100_000));
        assert!(check("other", [Some(&long), None]));
    }

    #[test]
    fn artifact_that_ran_under_other_names_only_is_not_attested() {
        let images = patterns(&["registry.example.com:5000/acme/cart"]);
        let flow = Ownership { repositories: vec![], images };
        let [one, other] = ["a", "b"].map(|content| Fingerprint::from_content(content.as_bytes()));
        let cart = "registry.example.com:5000/acme/cart:1.2@sha256:abc";
        assert_eq!(flow.check_images([]), Ok(BTreeSet::new()));
        assert_eq!(flow.check_images([(one, "elsewhere/cart:1"), (one, cart)]), Ok([one].into()));
        let error = flow.check_images([(one, cart), (other, "registry.example.com:5000/acme/carts")]);
        let name = "registry.example.com:5000/acme/carts".to_owned();
        assert_eq!(error, Err(OwnershipViolation::UndeclaredImage { artifact: other, name }));
        assert_eq!(Ownership::default().check_images([(one, "anything")]), Ok(BTreeSet::new()));
        let owned = Owned { is_owner: true, artifacts: [one].into() };
        assert_eq!([one, other].map(|artifact| owned.priority(&artifact)), [2, 1]);
        assert_eq!(Owned::default().priority(&one), 0);
    }
}
