//! Who wrote the commit of an artifact: as flows name the author, in the order of recording.
//!
//! Each flow that holds the artifact names the author, or the flow that determines the origin as the owner of the image under
//! which the artifact ran. Which of several flows builds the artifact is unknown, so one that names nobody leaves the author
//! unknown. Whoever may attest it in another flow, or again in the same one, adds no author whom approvals are compared with
//! instead: a different one is a conflict, or does not approve either.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use model::escape::needs_escape;
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
    /// The first flow that names nobody; `None` if no flow holds the artifact.
    Unknown(Option<&'a str>),
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
        let counted: Vec<_> =
            self.named.iter().filter(|named| owner.is_none_or(|owner| *owner == named.flow)).collect();
        let mut flows: Vec<_> = self.held.iter().collect();
        flows.sort_by_key(|(_, since)| **since);
        let flows =
            owner.map_or_else(|| flows.into_iter().map(|(flow, _)| flow).collect(), |owner| vec![owner]);
        let mut first = None;
        for flow in flows {
            match counted.iter().find(|named| named.flow == *flow) {
                Some(named) if !named.names.is_empty() => first = first.or(Some(named)),
                _ => return Author::Unknown(Some(flow)),
            }
        }
        let Some(of_flow) = first else { return Author::Unknown(None) };
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

/// The names and addresses in texts such as `Name <mail>`, `Surname, Name` or `One and Other (login)`, without case, accents,
/// white space and punctuation. Persons with an equal one are the same. A character that may separate persons does.
#[must_use]
pub(crate) fn identities<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut identities = BTreeSet::new();
    for text in texts {
        for group in folded(text).split(['<', '>', '(', ')', '[', ']', '{', '}', '"', ';', '|']) {
            identities.extend(spellings(group));
            let parts = group.split([',', '/', '&', ':']).flat_map(|part| part.split(" and "));
            identities.extend(parts.flat_map(|part| part.split(" + ")).flat_map(spellings));
        }
    }
    identities
}

/// A text in lower case without accents, apostrophes and invisible characters, with spaces as white space.
fn folded(text: &str) -> String {
    let is_dropped = |c: char| {
        !c.is_whitespace()
            && (needs_escape(c) || is_combining_mark(c) || matches!(c, '\'' | '`' | '\u{2018}' | '\u{2019}'))
    };
    let visible = text.nfkd().filter(|c| c.is_alphanumeric() || !is_dropped(*c));
    let spaced = visible.map(|c| if c.is_whitespace() { ' ' } else { c });
    // Some letters are equal only in upper case, such as a dotless i, and others only in lower case.
    let upper = spaced.flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

/// The words of a name in their order, and sorted. An address is one of these, and has another one without the tag before `@`.
fn spellings(name: &str) -> BTreeSet<String> {
    let joined = |name: &str| -> [String; 2] {
        let mut words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
        let name = words.concat();
        words.sort_unstable();
        [name, words.concat()]
    };
    let address = name.split_once('@').and_then(|(user, host)| Some((user.split_once('+')?, host)));
    let untagged =
        address.map(|((user, tag), host)| [user, tag].map(|user| joined(&format!("{user}@{host}"))));
    let spellings = joined(name).into_iter().chain(untagged.into_iter().flatten().flatten());
    spellings.filter(|spelling| !spelling.is_empty()).collect()
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
            Author::Unknown(flow) => format!("unknown in {}", flow.unwrap_or("no flow")),
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
            (&[][..], &[][..], &[][..], "unknown in no flow"),
            (&["cart"], &[], &[], "unknown in cart"),
            (&["cart"], &[], &[("cart", KIM)], "Kim <kim@example.com>"),
            // Another flow names an author where one does not, before or after it.
            (&["cart", "web"], &[], &[("web", NOBODY)], "unknown in cart"),
            (&["cart", "web"], &[], &[("cart", &[]), ("web", NOBODY)], "unknown in cart"),
            (&["cart"], &[], &[("cart", &[]), ("cart", NOBODY)], "unknown in cart"),
            (&["web", "cart"], &[], &[("web", NOBODY)], "unknown in cart"),
            (&["web", "cart"], &[], &[("web", NOBODY), ("cart", &[])], "unknown in cart"),
            (&["web", "cart"], &["web"], &[("web", KIM)], "Kim <kim@example.com>"),
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
            (
                &["cart", "web"],
                &[],
                &[("cart", KIM), ("web", &["kim", "kimd"])],
                "Kim <kim@example.com>, kim, kimd",
            ),
            // The author of the owner of the image counts, also if it is later, but whoever is named does not approve; two
            // owners are none.
            (&["web", "cart"], &["cart"], &[("web", NOBODY), ("cart", KIM)], "Nobody, Kim <kim@example.com>"),
            (&["web", "cart"], &["cart"], &[("web", KIM), ("cart", NOBODY)], "Kim <kim@example.com>, Nobody"),
            (&["web", "cart"], &["cart"], &[("web", NOBODY)], "unknown in cart"),
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
            // Other persons beside, and other orders and separators.
            "X Y (Kim Doe)",
            "X [kim@example.com]",
            "Lee AND\tKim Doe",
            "Lee\u{a0}and\u{a0}Kim\u{2003}Doe",
            "Lee & Kim Doe",
            "Lee&Kim Doe",
            "Lee / Kim Doe",
            "Lee + Kim Doe",
            "Lee | Kim Doe",
            "Pair: Kim Doe",
            "Doe, Kim",
            "Kim-Doe",
            "kim.doe",
            "X <kim+work@example.com>",
            "K\u{131}m Doe",
            "K\u{130}M DOE",
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
        for (one, other) in [
            ("Jo Stra\u{df}e", "JO STRASSE"),
            ("\u{39d}\u{3af}\u{3ba}\u{3bf}\u{3c2}", "\u{39d}\u{399}\u{39a}\u{39f}\u{3a3}"),
            ("Jo O\u{2019}Brien", "Jo OBrien"),
            ("1+kimd@users.noreply.github.com", "kimd@users.noreply.github.com"),
        ] {
            assert!(is_same_person(one, other), "{one}");
        }
        for (one, other) in [
            (" <>", "<>"),
            ("Kim <a@example.com>", "Lee <b@example.com>"),
            ("Jo O\u{2019}Brien", "Lee O\u{2019}Brien"),
        ] {
            assert!(!is_same_person(one, other), "{one}");
        }
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
        assert_eq!(describe(&other), "unknown in cart");
    }
}
