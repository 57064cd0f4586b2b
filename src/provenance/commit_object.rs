//! Reads the facts of a commit from its git object (git documentation, "git-cat-file").
//!
//! The stored object has all parents, also in a shallow clone.

use std::borrow::Cow;

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::{Fact, Facts, Found, Source};

/// The facts of the commit with this hash.
#[must_use]
pub fn facts_from_commit(hash: &str, object: &[u8]) -> Facts {
    let object = &decoded(object);
    let (headers, message) = object.split_once("\n\n").unwrap_or((object, ""));
    let header = |name| headers.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '));
    let parents: Vec<&str> = header("parent").collect();
    let author = header("author").next().and_then(person_and_time).map(|(person, _)| person);
    let at =
        header("committer").next().and_then(person_and_time).and_then(|(_, seconds)| seconds.parse().ok());
    let at = at.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()).map(|at| at.to_string());
    let message = Some(message.trim_end()).filter(|message| !message.is_empty());
    let parents = Some(parents.join(" ")).filter(|parents| !parents.is_empty());
    let facts = [
        (Fact::Commit, Some(hash)),
        (Fact::Author, author),
        (Fact::Message, message),
        (Fact::Timestamp, at.as_deref()),
        (Fact::Parents, parents.as_deref()),
    ];
    let found = |value: &str| Found { value: value.to_owned(), from: Source::WorkingCopy };
    facts.into_iter().filter_map(|(fact, value)| Some((fact, found(value?)))).collect()
}

/// The text of a commit, whose header `encoding` names its encoding if it is not UTF-8.
fn decoded(object: &[u8]) -> Cow<'_, str> {
    let mut headers = object.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let label = headers.find_map(|line| line.strip_prefix(b"encoding "));
    let encoding = label.and_then(Encoding::for_label).unwrap_or(UTF_8);
    // Headers are ASCII, which others than these contain.
    let encoding = if [UTF_16LE, UTF_16BE, REPLACEMENT].contains(&encoding) { UTF_8 } else { encoding };
    encoding.decode_without_bom_handling(object).0
}

/// Splits `name <address> seconds zone`.
fn person_and_time(line: &str) -> Option<(&str, &str)> {
    let end = line.rfind('>')? + 1;
    let (person, time) = line.split_at(end);
    Some((person, time.split_ascii_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_object_has_author_time_message_and_parents() {
        let object = "tree aa\nparent bb\nparent cc\nauthor Jo > Doe <jo@example.com> 1 +0200\ncommitter CI <ci@example.com> 1789473600 +0000\n\
                      gpgsig -----BEGIN PGP SIGNATURE-----\n parent dd\n -----END\n\nCount\n\nparent ee\n";
        let facts = facts_from_commit("ff", object.as_bytes());
        let values: Vec<_> = facts.iter().map(|(fact, found)| (*fact, found.value.as_str())).collect();
        assert_eq!(
            values,
            [
                (Fact::Commit, "ff"),
                (Fact::Author, "Jo > Doe <jo@example.com>"),
                (Fact::Message, "Count\n\nparent ee"),
                (Fact::Timestamp, "2026-09-15T12:00:00Z"),
                (Fact::Parents, "bb cc"),
            ]
        );
        assert_eq!(facts_from_commit("ff", b"").into_keys().collect::<Vec<_>>(), [Fact::Commit]);
    }

    #[test]
    fn text_is_read_in_the_encoding_that_the_commit_names() {
        let commit = |encoding: &str, name: &[u8]| {
            let header = if encoding.is_empty() { String::new() } else { format!("encoding {encoding}\n") };
            let mut object = b"tree aa\nauthor J".to_vec();
            object.extend([name, b" <j@example.com> 1 +0000\n", header.as_bytes(), b"\nFor ", name].concat());
            let facts = facts_from_commit("ff", &object);
            [Fact::Author, Fact::Message].map(|fact| facts[&fact].value.clone())
        };
        for (encoding, name, expected) in [
            ("ISO-8859-1", &b"\xf6rg"[..], "örg"),
            ("latin1", b"\xf6rg", "örg"),
            ("ISO-8859-15", b"\xa4", "€"),
            ("windows-1251", b"\xef", "п"),
            ("SHIFT_JIS", b"\x83\x5c", "ソ"),
            ("ISO-2022-JP", b"\x1b$B%=\x1b(B", "ソ"),
            ("UTF-8", "ö".as_bytes(), "ö"),
            ("", "ö".as_bytes(), "ö"),
            ("", b"\xf6", "\u{fffd}"),
            ("none", b"\xf6", "\u{fffd}"),
            ("UTF-16", b"x", "x"),
        ] {
            let [author, message] = commit(encoding, name);
            assert_eq!(
                (author, message),
                (format!("J{expected} <j@example.com>"), format!("For {expected}"))
            );
        }
    }
}
