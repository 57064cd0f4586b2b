//! Ownership: the repositories and images that a flow declares as its own.
//!
//! Declared in the bootstrap file. The service checks each attestation before it is recorded. Pure.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::domain::escape::Escaped;
use crate::domain::model::Fingerprint;

/// A name in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// Text that is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern: expected 1 to 255 bytes without spaces or control characters")]
pub struct InvalidPattern;

/// The declaration of a flow. An empty list declares nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ownership {
    /// Names of repositories. Only flows that declare a repository may name it.
    pub repositories: Vec<Pattern>,
    /// Names of images without tag and digest. The flow attests only artifacts that ran under one of them, or not yet.
    pub images: Vec<Pattern>,
}

/// Why an attestation is rejected.
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
        /// The artifact.
        artifact: Fingerprint,
        /// One of its names.
        name: String,
    },
}

impl Ownership {
    /// Whether nothing is declared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty() && self.images.is_empty()
    }

    /// Checks the names under which attested artifacts ran.
    ///
    /// # Errors
    ///
    /// [`OwnershipViolation`] if an artifact ran, and only under other names.
    pub fn check_images<'a>(
        &self,
        names: impl IntoIterator<Item = (Fingerprint, &'a str)>,
    ) -> Result<(), OwnershipViolation> {
        if self.images.is_empty() {
            return Ok(());
        }
        let mut by_artifact: BTreeMap<Fingerprint, Vec<&str>> = BTreeMap::new();
        for (artifact, name) in names {
            by_artifact.entry(artifact).or_default().push(name);
        }
        let is_declared = |name: &&str| any_matches(&self.images, without_tag(name));
        match by_artifact.into_iter().find(|(_, names)| !names.iter().any(is_declared)) {
            None => Ok(()),
            Some((artifact, names)) => {
                let name = names.first().copied().unwrap_or_default().to_owned();
                Err(OwnershipViolation::UndeclaredImage { artifact, name })
            }
        }
    }
}

/// Checks the repository that an attestation of a flow names. `declared` has the flows with a declaration.
///
/// # Errors
///
/// [`OwnershipViolation`] if the flow declares other repositories, or only other flows declare this one.
pub fn check_repository(
    flow: &str,
    repository: &str,
    declared: &BTreeMap<String, Ownership>,
) -> Result<(), OwnershipViolation> {
    let own = declared.get(flow).map_or(&[][..], |own| &own.repositories);
    if any_matches(own, repository) {
        Ok(())
    } else if !own.is_empty() {
        Err(OwnershipViolation::UndeclaredRepository(repository.to_owned()))
    } else if declared.values().any(|other| any_matches(&other.repositories, repository)) {
        Err(OwnershipViolation::OwnedRepository(repository.to_owned()))
    } else {
        Ok(())
    }
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
    fn matches(&self, name: &str) -> bool {
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

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let is_valid = matches!(text.len(), 1..=255) && !text.contains(|c: char| c.is_control() || c == ' ');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidPattern) }
    }
}

impl TryFrom<String> for Pattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
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
        let check =
            |flow, repository| check_repository(flow, repository, &declared).map_err(|e| e.to_string());
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
    }

    #[test]
    fn artifact_that_ran_under_other_names_only_is_not_attested() {
        let images = patterns(&["registry.example.com:5000/acme/cart"]);
        let flow = Ownership { repositories: vec![], images };
        let [one, other] = ["a", "b"].map(|content| Fingerprint::from_content(content.as_bytes()));
        let cart = "registry.example.com:5000/acme/cart:1.2@sha256:abc";
        assert_eq!(flow.check_images([]), Ok(()));
        assert_eq!(flow.check_images([(one, "elsewhere/cart:1"), (one, cart)]), Ok(()));
        let error = flow.check_images([(one, cart), (other, "registry.example.com:5000/acme/carts")]);
        let name = "registry.example.com:5000/acme/carts".to_owned();
        assert_eq!(error, Err(OwnershipViolation::UndeclaredImage { artifact: other, name }));
        assert_eq!(Ownership::default().check_images([(one, "anything")]), Ok(()));
    }
}
