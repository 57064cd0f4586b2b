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
    /// Tests without a name and without an outcome.
    pub nameless: u64,
    /// Tests by their status, if it is an error or not known.
    pub statuses: BTreeMap<String, u64>,
    /// Failures and errors that suites declare although none of their tests failed.
    pub outside: u64,
}

/// Limit for the statuses in the text.
const MAX_STATUSES: usize = 5;

/// Empty if every test counts as its element says.
impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |number: u64, noun: &str, what: &str| {
            (number > 0).then(|| format!("{} {what}", pluralize(number, noun)))
        };
        let statuses = self.statuses.iter().take(MAX_STATUSES).filter_map(|(status, tests)| {
            counted(*tests, "test", &format!("with the status \"{}\": an error", Escaped(status)))
        });
        let more: u64 = self.statuses.values().skip(MAX_STATUSES).sum();
        let parts = [
            counted(self.copies, "copy", "in other files: not counted"),
            counted(self.attempts, "earlier attempt", "of a test: not counted"),
            counted(self.excused, "failure", "excused by the totals of the suite"),
            counted(self.nameless, "test", "without name and outcome: an error"),
        ];
        let last = [
            counted(more, "test", "with another status: an error"),
            counted(self.outside, "error", "declared by a suite outside of its tests"),
        ];
        let parts: Vec<_> =
            parts.into_iter().flatten().chain(statuses).chain(last.into_iter().flatten()).collect();
        f.write_str(&parts.join("; "))
    }
}
