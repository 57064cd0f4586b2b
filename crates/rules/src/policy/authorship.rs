//! Who wrote the commit of an artifact: as flows name the author, in the order of recording.
//!
//! The first flow that holds the artifact names the author, or the flow that determines the origin as the owner of the image
//! under which the artifact ran. Whoever may attest it in another flow, or again in the same one, adds no author whom approvals
//! are compared with instead: a different one is a conflict.

use std::collections::{BTreeMap, BTreeSet};

use model::{GitCommit, Text, Timestamp};

/// Maximum number of authors that are recorded per flow and artifact, so that an evaluation reads few. With as many, later ones
/// are unknown, and the author is in conflict.
pub const MAX_NAMED: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authorship {
    /// The flows that hold the artifact or another digest of its image, and since when.
    pub held: BTreeMap<String, Timestamp>,
    /// The flows that own the image under which it ran, and determine its origin.
    pub owners: BTreeSet<String>,
    pub named: BTreeSet<NamedAuthor>,
}

/// The author of a commit, by the first attestation or report in which a flow names this author of the artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedAuthor {
    pub at: Timestamp,
    pub flow: String,
    /// As in git, and the name at the provider; empty for a commit without an author.
    pub names: Vec<String>,
}

/// The author whom approvals are compared with.
#[derive(Debug, PartialEq, Eq)]
pub enum Author<'a> {
    /// The names of one person.
    Known(Vec<&'a str>),
    Unknown,
    Conflicting(&'a NamedAuthor, &'a NamedAuthor),
}

/// The names of a commit's author; `None` if it names neither a commit nor an author.
#[must_use]
pub fn named(commit: &GitCommit) -> Option<Vec<String>> {
    let names = commit.author.iter().chain(&commit.author_username).map(Text::as_str);
    let names: Vec<_> = names.filter(|name| !name.trim().is_empty()).map(str::to_owned).collect();
    (commit.sha1.is_some() || !names.is_empty()).then_some(names)
}

impl Authorship {
    #[must_use]
    pub fn author(&self) -> Author<'_> {
        let owner = self.owners.first().filter(|_| self.owners.len() == 1);
        let first = self.held.iter().min_by_key(|(_, since)| **since).map(|(flow, _)| flow);
        let counted: Vec<_> =
            self.named.iter().filter(|named| owner.is_none_or(|owner| *owner == named.flow)).collect();
        let of_flow = counted.iter().find(|named| owner.or(first) == Some(&named.flow));
        let Some(of_flow) = of_flow.filter(|named| !named.names.is_empty()) else { return Author::Unknown };
        let differs = |named: &&&NamedAuthor| !named.names.is_empty() && !of_flow.is_same(named);
        let full = |named: &&&NamedAuthor| {
            counted.iter().filter(|other| other.flow == named.flow).count() >= MAX_NAMED
        };
        match counted.iter().find(differs).or_else(|| counted.iter().rfind(full)) {
            Some(other) => Author::Conflicting(of_flow, other),
            None => {
                Author::Known(counted.iter().flat_map(|named| &named.names).map(String::as_str).collect())
            }
        }
    }

    /// Adds that of another digest of the image.
    pub(crate) fn add(&mut self, other: &Self) {
        for (flow, since) in &other.held {
            let known = self.held.entry(flow.clone()).or_insert(*since);
            *known = (*known).min(*since);
        }
        self.owners.extend(other.owners.iter().cloned());
        self.named.extend(other.named.iter().cloned());
    }
}

impl NamedAuthor {
    /// Whether any names are those of one person.
    fn is_same(&self, other: &Self) -> bool {
        self.names.iter().any(|one| other.names.iter().any(|other| is_same_person(one, other)))
    }
}

/// Whether two names, such as `Name <mail>`, are of one person: by name, address or both, whatever the case.
#[must_use]
pub(crate) fn is_same_person(one: &str, other: &str) -> bool {
    let normal = |text: &str| text.trim().to_lowercase();
    let parts = |text: &str| -> BTreeMap<&'static str, String> {
        match text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
            Some((name, mail)) => BTreeMap::from([("name", normal(name)), ("mail", normal(mail))]),
            None if text.contains('@') => BTreeMap::from([("mail", normal(text))]),
            None => BTreeMap::from([("name", normal(text))]),
        }
    };
    let (one, other) = (parts(one), parts(other));
    one.iter().any(|(part, text)| !text.is_empty() && other.get(part) == Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorship(held: &[&str], owners: &[&str], named: &[(&str, &[&str])]) -> Authorship {
        let at = |place: usize| Timestamp::from_micros(i64::try_from(place).unwrap());
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Authorship {
            held: held.iter().enumerate().map(|(place, &flow)| (flow.to_owned(), at(place))).collect(),
            owners: owners.iter().map(|&flow| flow.to_owned()).collect(),
            named: named
                .iter()
                .enumerate()
                .map(|(place, (flow, of))| NamedAuthor {
                    at: at(place),
                    flow: (*flow).to_owned(),
                    names: owned(of),
                })
                .collect(),
        }
    }

    fn describe(authorship: &Authorship) -> String {
        match authorship.author() {
            Author::Known(names) => names.join(", "),
            Author::Unknown => "unknown".to_owned(),
            Author::Conflicting(one, other) => {
                format!("{} {:?}, {} {:?}", one.flow, one.names, other.flow, other.names)
            }
        }
    }

    #[test]
    fn author_is_that_of_the_first_flow_and_others_conflict() {
        const KIM: &[&str] = &["Kim <kim@example.com>"];
        const NOBODY: &[&str] = &["Nobody"];
        let conflict = r#"cart ["Kim <kim@example.com>"], cart ["Nobody"]"#;
        for (held, owners, named, expected) in [
            (&[][..], &[][..], &[][..], "unknown"),
            (&["cart"], &[], &[], "unknown"),
            (&["cart"], &[], &[("cart", KIM)], "Kim <kim@example.com>"),
            // Another flow names an author where the first one does not.
            (&["cart", "web"], &[], &[("web", NOBODY)], "unknown"),
            (&["cart", "web"], &[], &[("cart", &[]), ("web", NOBODY)], "unknown"),
            (&["cart"], &[], &[("cart", &[]), ("cart", NOBODY)], "unknown"),
            // Another author, in the same flow and in another one.
            (&["cart"], &[], &[("cart", KIM), ("cart", NOBODY)], conflict),
            (
                &["cart", "web"],
                &[],
                &[("cart", KIM), ("web", NOBODY)],
                r#"cart ["Kim <kim@example.com>"], web ["Nobody"]"#,
            ),
            (
                &["web", "cart"],
                &[],
                &[("web", NOBODY), ("cart", KIM)],
                r#"web ["Nobody"], cart ["Kim <kim@example.com>"]"#,
            ),
            // A later commit without an author is no other author, and one person has several names.
            (&["cart"], &[], &[("cart", KIM), ("cart", &[])], "Kim <kim@example.com>"),
            (&["cart"], &[], &[("cart", KIM), ("web", &["kim", "kimd"])], "Kim <kim@example.com>, kim, kimd"),
            // The owner of the image alone counts, also if it is later; two owners are none.
            (&["web", "cart"], &["cart"], &[("web", NOBODY), ("cart", KIM)], "Kim <kim@example.com>"),
            (&["web", "cart"], &["cart"], &[("web", NOBODY)], "unknown"),
            (
                &["web", "cart"],
                &["cart", "web"],
                &[("web", NOBODY), ("cart", KIM)],
                r#"web ["Nobody"], cart ["Kim <kim@example.com>"]"#,
            ),
        ] {
            let authorship = authorship(held, owners, named);
            assert_eq!(describe(&authorship), expected, "{authorship:?}");
        }
    }

    #[test]
    fn full_list_of_authors_is_a_conflict() {
        let variants: Vec<String> = (0..MAX_NAMED).map(|n| format!("Kim <{n}@example.com>")).collect();
        let lists: Vec<[&str; 1]> = variants.iter().map(|name| [name.as_str()]).collect();
        let all: Vec<(&str, &[&str])> = lists.iter().map(|list| ("cart", &list[..])).collect();
        let of = |named| authorship(&["cart"], &[], named);
        assert!(matches!(of(&all[1..]).author(), Author::Known(_)));
        assert!(matches!(of(&all).author(), Author::Conflicting(..)));
    }

    #[test]
    fn author_of_an_image_is_that_of_the_first_flow_of_any_digest() {
        let mut index = authorship(&["cart"], &[], &[("cart", &["Kim"])]);
        let mut manifest = authorship(&["x", "scan"], &[], &[("x", &["x"]), ("scan", &["Nobody"])]);
        manifest.held.remove("x");
        manifest.named.pop_first();
        assert_eq!(describe(&manifest), "Nobody");
        manifest.add(&index);
        assert_eq!(describe(&manifest), r#"cart ["Kim"], scan ["Nobody"]"#);
        index.named.clear();
        let mut other = authorship(&["x", "scan"], &[], &[("x", &["x"]), ("scan", &["Nobody"])]);
        other.held.remove("x");
        other.named.pop_first();
        other.add(&index);
        assert_eq!(describe(&other), "unknown");
    }
}
