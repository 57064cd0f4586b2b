//! Reads the facts of a commit from its git object (git documentation, "git-cat-file").
//!
//! The stored object has all parents, also in a shallow clone.

use super::{Fact, Facts, Found, Source};

/// The facts of the commit with this hash.
#[must_use]
pub fn facts_from_commit(hash: &str, object: &str) -> Facts {
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
        let facts = facts_from_commit("ff", object);
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
        assert_eq!(facts_from_commit("ff", "").into_keys().collect::<Vec<_>>(), [Fact::Commit]);
    }
}
