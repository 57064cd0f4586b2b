//! What a commit says of itself: the object as git keeps it (git documentation, "git-cat-file").
//!
//! Read as it is kept, it has all its parents also where a clone is shallow.

use super::{Fact, Facts, Found, Source};

/// The facts of a commit, whose hash is this.
#[must_use]
pub fn of_object(hash: &str, object: &str) -> Facts {
    let (headers, message) = object.split_once("\n\n").unwrap_or((object, ""));
    let header = |name| headers.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '));
    let parents: Vec<&str> = header("parent").collect();
    let author = header("author").next().and_then(person).map(|(who, _)| who);
    let at = header("committer").next().and_then(person).and_then(|(_, seconds)| seconds.parse().ok());
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

/// `name <address> seconds zone`: who, and when.
fn person(line: &str) -> Option<(&str, &str)> {
    let end = line.rfind('>')? + 1;
    let (who, when) = line.split_at(end);
    Some((who, when.split_ascii_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_tells_who_when_why_and_what_was_before() {
        let object = "tree aa\nparent bb\nparent cc\nauthor Jo > Doe <jo@example.com> 1 +0200\ncommitter CI <ci@example.com> 1789473600 +0000\n\
                      gpgsig -----BEGIN PGP SIGNATURE-----\n parent dd\n -----END\n\nCount\n\nparent ee\n";
        let facts = of_object("ff", object);
        let said: Vec<_> = facts.iter().map(|(fact, found)| (*fact, found.value.as_str())).collect();
        assert_eq!(
            said,
            [
                (Fact::Commit, "ff"),
                (Fact::Author, "Jo > Doe <jo@example.com>"),
                (Fact::Message, "Count\n\nparent ee"),
                (Fact::Timestamp, "2026-09-15T12:00:00Z"),
                (Fact::Parents, "bb cc"),
            ]
        );
        assert_eq!(of_object("ff", "").into_keys().collect::<Vec<_>>(), [Fact::Commit]);
    }
}
