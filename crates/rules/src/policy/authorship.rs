//! Who wrote the commit of an artifact: as flows name the author, in the order of recording.
//!
//! The first flow that holds the artifact names the author, or the flow that determines the origin as the owner of the image
//! under which the artifact ran. Whoever may attest it in another flow, or again in the same one, adds no author whom approvals
//! are compared with instead: a different one is a conflict, or does not approve either.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization;

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

/// The trailer of a commit's message that names another author, such as those of squashed commits.
const CO_AUTHOR: &str = "co-authored-by:";

/// The names of a commit's author, and then of its co-authors; `None` if it names neither a commit nor an author.
#[must_use]
pub fn named(commit: &GitCommit) -> Option<Vec<String>> {
    let has_name = |name: &&str| !identities([*name]).is_empty();
    let author = commit.author.iter().chain(&commit.author_username).map(Text::as_str);
    let mut names: Vec<&str> = author.filter(has_name).collect();
    if !names.is_empty() {
        let lines = commit.message.as_ref().map_or("", Text::as_str).lines();
        let trailers = lines.filter_map(|line| line.trim_start().split_at_checked(CO_AUTHOR.len()));
        let co_authors = trailers.filter(|(key, _)| key.eq_ignore_ascii_case(CO_AUTHOR));
        names.extend(co_authors.map(|(_, name)| name.trim()).filter(has_name));
    }
    (commit.sha1.is_some() || !names.is_empty()).then(|| names.into_iter().map(str::to_owned).collect())
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
        let own = of_flow.identities();
        let differs = |named: &&&NamedAuthor| !named.names.is_empty() && own.is_disjoint(&named.identities());
        let full = |named: &&&NamedAuthor| {
            counted.iter().filter(|other| other.flow == named.flow).count() >= MAX_NAMED
        };
        match counted.iter().find(differs).or_else(|| counted.iter().rfind(full)) {
            Some(other) => Author::Conflicting(of_flow, other),
            // Another flow cannot name the author in place of the owner, but whom it names does not approve either.
            None => {
                Author::Known(self.named.iter().flat_map(|named| &named.names).map(String::as_str).collect())
            }
        }
    }

    /// Adds that of another digest of the image.
    pub fn add(&mut self, other: &Self) {
        for (flow, since) in &other.held {
            let known = self.held.entry(flow.clone()).or_insert(*since);
            *known = (*known).min(*since);
        }
        self.owners.extend(other.owners.iter().cloned());
        self.named.extend(other.named.iter().cloned());
    }
}

impl NamedAuthor {
    fn identities(&self) -> BTreeSet<String> {
        identities(self.names.iter().map(String::as_str))
    }
}

/// The names and addresses in texts such as `Name <mail>`, also of several persons, without case, accents and white space.
/// Persons with an equal one are the same.
#[must_use]
pub(crate) fn identities<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    const SEPARATORS: [char; 5] = ['<', '>', ',', ';', '"'];
    let is_significant = |c: &char| c.is_alphanumeric() || "@._+-/()".contains(*c);
    let normal = |part: &str| -> String {
        let part: String = part.nfkd().filter(is_significant).collect();
        let part = part.to_lowercase();
        part.strip_prefix('@').map(str::to_owned).unwrap_or(part)
    };
    let parts = texts.into_iter().flat_map(|text| text.split(SEPARATORS));
    let parts = parts.flat_map(|part| part.split(" and ")).flat_map(|part| part.split(" & "));
    parts.map(normal).filter(|part| part.contains(char::is_alphanumeric)).collect()
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
            // The author of the owner of the image counts, also if it is later, but whoever is named does not approve; two
            // owners are none.
            (&["web", "cart"], &["cart"], &[("web", NOBODY), ("cart", KIM)], "Nobody, Kim <kim@example.com>"),
            (&["web", "cart"], &["cart"], &[("web", KIM), ("cart", NOBODY)], "Kim <kim@example.com>, Nobody"),
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

    fn is_same_person(one: &str, other: &str) -> bool {
        !identities([one]).is_disjoint(&identities([other]))
    }

    #[test]
    fn names_of_one_person_are_the_same_however_they_are_written() {
        for one in [
            "Kim Doe",
            "KIM  DOE ",
            "Kim Doe <>",
            "\"Kim Doe\" <kim@example.com>",
            "K. <KIM@example.com>",
            "<kim@example.com>",
            "kim@example.com",
            "Kim Doe <kim@example.com>, Lee <lee@example.com>",
            "Lee <lee@example.com>; Kim Doe <kim@example.com>",
            "Lee and Kim Doe",
            "@kim@example.com",
            // Full width, a zero-width space, and a combining accent.
            "\u{ff2b}im Doe",
            "Kim\u{200b} Doe",
            "Ki\u{301}m Doe",
        ] {
            assert!(is_same_person("Kim Doe <kim@example.com>", one), "{one}");
        }
        for other in ["Kim", "Doe", "Lee <lee@example.com>", "kim@example.org", "", "<>", "\u{200b}"] {
            assert!(!is_same_person("Kim Doe <kim@example.com>", other), "{other}");
        }
        assert!(!is_same_person(" <>", "<>"));
    }

    #[test]
    fn authors_of_a_commit_have_names_and_include_those_of_trailers() {
        const SQUASHED: &str = "Count\n\nCo-authored-by: Lee <lee@x>\nco-authored-by:Jo <jo@x>\n";
        let of = |author: &str, message: &str| {
            let sha1 = "a".repeat(40);
            let commit = serde_json::json!({"sha1": sha1, "author": author, "message": message});
            named(&serde_json::from_value(commit).unwrap()).unwrap()
        };
        assert_eq!(of("Kim <kim@x>", SQUASHED), ["Kim <kim@x>", "Lee <lee@x>", "Jo <jo@x>"]);
        assert_eq!(of("Kim <kim@x>", "Count co-authored-by: x"), ["Kim <kim@x>"]);
        for nobody in ["", " ", "<>", " < >", "\u{200b}"] {
            assert_eq!(of(nobody, SQUASHED), [""; 0], "{nobody:?}");
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
