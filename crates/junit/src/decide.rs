//! Decides what counts: the rules of docs/reference/junit.md, each a pass over the records of all files.

use super::case::CaseOutcome;
use super::decisions::Decisions;
use super::records::{Records, Sign};
use super::{attempts, copies, results, totals};
use model::JunitResult;

/// Decides within each file, then between files. Afterwards, the records have the cases that count, with their outcome.
pub(super) fn decide(records: &mut Records) -> (Vec<JunitResult>, Decisions) {
    let attempts = attempts::merge(records);
    let excused = totals::excuse_marked(records);
    let mut outside = totals::errors_outside_of_cases(records);
    let had_content = results::with_content(records, &outside);
    let copies = copies::merge(records, &mut outside);
    let results = results::of(records, &outside, &had_content);
    let outside = outside.iter().map(|errors| u64::from(*errors)).sum();
    let mut decisions = Decisions { copies, attempts, excused, outside, ..Decisions::default() };
    for case in records.cases.iter().filter(|case| case.counts() && case.outcome == CaseOutcome::Errored) {
        if let Sign::Doubt(doubt) = case.sign
            && let Some(doubt) = records.doubts.get(usize::from(doubt))
        {
            *decisions.doubts.entry(doubt.clone()).or_default() += 1;
        }
    }
    (results, decisions)
}
