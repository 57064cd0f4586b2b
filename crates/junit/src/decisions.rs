//! What was decided about test results, in one line.

use std::collections::BTreeMap;
use std::fmt;

use model::escape::Escaped;
use model::pluralize;

/// What does not count as its element says, or counts as an error without one that says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decisions {
    /// Copies of a test in another file of the same run; the worst one counts.
    pub copies: u64,
    /// Attempts of a test before the last.
    pub attempts: u64,
    /// Failed tests, marked as skipped, flaky or rerun, that their suite does not count as failed.
    pub excused: u64,
    /// Tests and totals that are errors, by the reason.
    pub doubts: BTreeMap<Doubt, u64>,
    /// Failures and errors that suites declare although none of their tests failed.
    pub outside: u64,
}

/// Why something is an error although no `failure` or `error` says so.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// A test case without a name and without an outcome.
    Nameless,
    /// A status that is an error, or not a known word of passing or skipping.
    Status(String),
    /// A child of a test case or a suite that is not known, and may be an outcome.
    Child(String),
    /// A total of a suite that is not a number.
    Total {
        /// The name of the attribute.
        attribute: String,
        /// Its value.
        value: String,
    },
}

/// The message of a failed test.
impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nameless => f.write_str("the test case has no name"),
            Self::Status(word) => write!(f, "the status is \"{}\"", Escaped(word)),
            Self::Child(name) => write!(f, "the element <{}> is not known", Escaped(name)),
            Self::Total { attribute, value } => {
                write!(f, "the suite declares {attribute}=\"{}\", which is not a number", Escaped(value))
            }
        }
    }
}

/// Limit for the reasons in the text.
const MAX_DOUBTS: usize = 5;

/// Empty if every test counts as its element says.
impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |number: u64, noun: &str, what: &str| {
            (number > 0).then(|| format!("{} {what}", pluralize(number, noun)))
        };
        let doubts = self.doubts.iter().take(MAX_DOUBTS).filter_map(|(doubt, number)| match doubt {
            Doubt::Nameless => counted(*number, "test", "without name and outcome: an error"),
            Doubt::Status(word) => {
                counted(*number, "test", &format!("with the status \"{}\": an error", Escaped(word)))
            }
            Doubt::Child(name) => {
                counted(*number, "test", &format!("with the unknown element <{}>: an error", Escaped(name)))
            }
            Doubt::Total { attribute, value } => {
                let what = format!("with {attribute}=\"{}\", not a number: an error", Escaped(value));
                counted(*number, "suite", &what)
            }
        });
        let more: u64 = self.doubts.values().skip(MAX_DOUBTS).sum();
        let parts = [
            counted(self.copies, "copy", "in other files: not counted"),
            counted(self.attempts, "earlier attempt", "of a test: not counted"),
            counted(self.excused, "failure", "excused by the totals of the suite"),
        ];
        let last = [
            counted(more, "other", "without a clear outcome: an error"),
            counted(self.outside, "error", "declared by a suite outside of its tests"),
        ];
        let parts: Vec<_> =
            parts.into_iter().flatten().chain(doubts).chain(last.into_iter().flatten()).collect();
        f.write_str(&parts.join("; "))
    }
}
