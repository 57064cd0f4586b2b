//! The table of what runs: rows of the service's words, aligned.

use std::time::Duration;

use super::sample::short;
use super::screen::{Look, Word};
use crate::domain::compliance::Compliance;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::domain::notification::Content;
use crate::domain::visible::Visible;

/// How much of a digest is shown, in hex digits.
const DIGITS: usize = 10;

/// How many artifacts of a notification are shown.
const NAMED: usize = 10;

/// An artifact that runs in an environment, and what its trails say of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) environment: String,
    pub(super) image: String,
    pub(super) digest: Option<Fingerprint>,
    pub(super) commit: Option<String>,
    pub(super) tests: Tests,
    pub(super) since: Option<Timestamp>,
    pub(super) snapshot: Option<u64>,
    pub(super) compliance: String,
}

/// What the trails of an artifact say of its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    /// All of them are as expected.
    Pass,
    /// One of them is not.
    Fail,
    /// There are none.
    Unknown,
}

/// Rows of words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table(Vec<Vec<Word>>);

impl Table {
    /// What runs now, under headings.
    pub(super) fn running(rows: &[Row], now: Timestamp) -> Self {
        let headings = ["ENV", "IMAGE", "DIGEST", "COMMIT", "TESTS", "SINCE"];
        let mut table = Self(vec![headings.map(|heading| Word(Look::Dim, heading.to_owned())).into()]);
        table.0.extend(rows.iter().map(|row| {
            let mut cells = vec![plain(&row.environment)];
            cells.extend(row.identity(Look::Plain));
            cells.push(plain(&row.since.map_or_else(|| "-".to_owned(), |since| age(since, now))));
            cells
        }));
        table
    }

    /// What went and what came between two looks.
    pub(super) fn changes(before: &[Row], after: &[Row]) -> Self {
        let gone = before.iter().filter(|row| !row.is_in(after));
        let new = after.iter().filter(|row| !row.is_in(before));
        let line = |row: &Row, look, sign: &str| {
            let mut cells = vec![Word(look, sign.to_owned())];
            cells.extend(row.identity(look));
            cells
        };
        let gone = gone.map(|row| line(row, Look::Bad, "-"));
        Self(gone.chain(new.map(|row| line(row, Look::Good, "+"))).collect())
    }

    /// Whether what runs may run, in the service's word.
    pub(super) fn verdicts(rows: &[Row]) -> Self {
        let headings = ["ENV", "IMAGE", "DIGEST", "COMPLIANCE"];
        let mut table = Self(vec![headings.map(|heading| Word(Look::Dim, heading.to_owned())).into()]);
        table.0.extend(rows.iter().map(|row| {
            let [image, digest, ..] = row.identity(Look::Plain);
            vec![plain(&row.environment), image, digest, compliance(&row.compliance)]
        }));
        table
    }

    /// What a notification says.
    pub(super) fn told(content: &Content) -> Self {
        let line = |what: &str, is: Word| vec![Word(Look::Dim, what.to_owned()), is];
        let place = format!("{}, snapshot {}", content.environment, content.snapshot_index);
        let mut table =
            vec![line("trigger", plain(content.trigger.as_str())), line("environment", plain(&place))];
        for artifact in content.artifacts.iter().take(NAMED) {
            let digest = short(&artifact.fingerprint.to_string(), DIGITS);
            table.push(line("artifact", plain(&format!("{}  {digest}", artifact.name))));
            table.extend(artifact.reasons.iter().map(|reason| line("reason", plain(reason))));
        }
        match content.artifacts_total.saturating_sub(NAMED) {
            0 => {}
            more => table.push(line("and", plain(&format!("{more} more")))),
        }
        Self(table)
    }

    /// Its lines: each column as wide as its widest cell, and two spaces between two.
    pub(super) fn lines(&self) -> Vec<Vec<Word>> {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let width =
            |n| self.0.iter().filter_map(move |row| row.get(n)).map(|Word(_, text)| text.chars().count());
        let widths: Vec<_> = (0..columns).map(|n| width(n).max().unwrap_or_default() + 1).collect();
        let padded = |(Word(look, text), width): (&Word, &usize)| Word(*look, format!("{text:width$}"));
        let lines = self.0.iter().map(|row| {
            let mut line: Vec<_> = row.iter().zip(&widths).map(padded).collect();
            // Nothing follows the last cell.
            if let (Some(last), Some(Word(_, text))) = (line.last_mut(), row.last()) {
                last.1.clone_from(text);
            }
            line
        });
        lines.collect()
    }
}

impl Row {
    /// What it is: image, digest, commit and tests.
    fn identity(&self, look: Look) -> [Word; 4] {
        let digest = self.digest.map_or_else(|| "-".to_owned(), |digest| short(&digest.to_string(), DIGITS));
        let commit = self.commit.as_deref().map_or_else(|| "-".to_owned(), |commit| short(commit, 7));
        let (tests, tests_look) = match self.tests {
            Tests::Pass => ("pass", Look::Good),
            Tests::Fail => ("fail", Look::Bad),
            Tests::Unknown => ("none", Look::Dim),
        };
        let Word(_, image) = plain(&self.image);
        [Word(look, image), Word(look, digest), plain(&commit), Word(tests_look, tests.to_owned())]
    }

    fn is_in(&self, rows: &[Self]) -> bool {
        rows.iter().any(|row| row.environment == self.environment && row.digest == self.digest)
    }
}

/// The word that says whether something may run, by its look.
pub(super) fn compliance(word: &str) -> Word {
    let look = match word.parse() {
        Ok(Compliance::Compliant) => Look::Good,
        Ok(Compliance::NonCompliant) => Look::Bad,
        Ok(Compliance::Unknown) | Err(_) => Look::Dim,
    };
    Word(look, plain(word).1)
}

/// A text from outside.
fn plain(text: &str) -> Word {
    Word(Look::Plain, Visible(text).to_string())
}

/// How long ago, in one unit.
fn age(since: Timestamp, now: Timestamp) -> String {
    let micros = u64::try_from(now.micros() - since.micros()).unwrap_or_default();
    match Duration::from_micros(micros).as_secs() {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s ago"),
        seconds => format!("{}m ago", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(image: &str, tests: Tests) -> Row {
        Row {
            environment: "demo".to_owned(),
            image: image.to_owned(),
            digest: Some(Fingerprint::of(image.as_bytes())),
            commit: Some("4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21".to_owned()),
            tests,
            since: Timestamp::from_seconds(1e9),
            snapshot: Some(1),
            compliance: "COMPLIANT".to_owned(),
        }
    }

    fn text(table: &Table) -> Vec<String> {
        let words = |line: &Vec<Word>| line.iter().map(|word| word.1.clone()).collect::<Vec<_>>().join(" ");
        table.lines().iter().map(words).collect()
    }

    #[test]
    fn columns_are_aligned_and_what_is_unknown_is_a_dash() {
        let bare = Row { digest: None, commit: None, since: None, ..row("x", Tests::Unknown) };
        let now = Timestamp::from_micros(1_000_000_061_000_000);
        let lines = text(&Table::running(&[row("shop/web:1", Tests::Pass), bare], now));
        assert_eq!(
            lines,
            [
                "ENV   IMAGE       DIGEST      COMMIT   TESTS  SINCE",
                "demo  shop/web:1  763f4118c3  4f1c2e7  pass   1m ago",
                "demo  x           -           -        none   -",
            ]
        );
    }

    #[test]
    fn what_may_run_and_what_may_not_look_different() {
        let unknown = Row { compliance: "UNKNOWN".to_owned(), ..row("shop/web:1", Tests::Pass) };
        assert_eq!(
            text(&Table::verdicts(&[unknown])),
            ["ENV   IMAGE       DIGEST      COMPLIANCE", "demo  shop/web:1  763f4118c3  UNKNOWN"]
        );
        let looks = ["COMPLIANT", "NON-COMPLIANT", "UNKNOWN", "else"].map(|word| compliance(word).0);
        assert_eq!(looks, [Look::Good, Look::Bad, Look::Dim, Look::Dim]);
    }

    #[test]
    fn a_notification_names_some_artifacts_with_their_reasons_and_counts_the_others() {
        let artifact = |n: usize| {
            let fingerprint = Fingerprint::of(b"a").to_string();
            json!({"fingerprint": fingerprint, "name": format!("web:{n}\n"), "compliance": "NON-COMPLIANT",
                "reasons": ["unit-tests of the flow web is missing"], "pods": 2, "pods_before": 0})
        };
        let artifacts: Vec<_> = (0..12).map(artifact).collect();
        let content = json!({"trigger": "ON_NON_COMPLIANT_ENV", "occurred_at": 1.5, "organization": "acme",
            "environment": "prod", "snapshot_index": 2, "compliance": "NON-COMPLIANT",
            "cause": {"type": "REPORT"}, "artifacts": artifacts, "artifacts_total": 12});
        let lines = text(&Table::told(&serde_json::from_value(content).unwrap()));
        assert_eq!(lines.len(), 2 + 2 * NAMED + 1, "{lines:?}");
        assert_eq!(lines[0], "trigger      ON_NON_COMPLIANT_ENV");
        assert_eq!(lines[1], "environment  prod, snapshot 2");
        assert!(
            lines[2].starts_with("artifact     web:0") && lines[2].ends_with("  ca978112ca"),
            "{lines:?}"
        );
        assert_eq!(lines[3], "reason       unit-tests of the flow web is missing");
        assert_eq!(lines[22], "and          2 more");
    }

    #[test]
    fn a_change_is_what_went_and_what_came_and_not_what_stayed() {
        let [a, b, c] = ["a", "b", "c"].map(|image| row(image, Tests::Fail));
        let lines = text(&Table::changes(&[a.clone(), b.clone()], &[b, c]));
        let [gone, new] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(gone.starts_with("-  a") && new.starts_with("+  c"), "{lines:?}");
        assert_eq!(Table::changes(std::slice::from_ref(&a), std::slice::from_ref(&a)), Table::default());
    }
}
