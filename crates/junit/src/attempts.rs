//! Attempts of one test, each of them a test case.

use std::collections::HashMap;

use super::case::{CaseOutcome, PerKind};
use super::records::{CaseRecord, Records, SuiteId, deciding};

/// Cases of one class and name in one suite are attempts of one test if the suite declares fewer tests than it has
/// cases, or if they are marked as reruns. The last one counts; if it is not clear which cases are attempts, the worst.
/// Returns the number of cases that do not count.
pub(super) fn merge(records: &mut Records) -> u64 {
    let Records { suites, cases, .. } = records;
    let deciding = deciding(suites, |suite| suite.declared.tests.is_some());
    let mut counts = suites.each(Counts::default());
    for case in &*cases {
        counts[case.suite].tests += u32::from(case.is_named());
        counts[case.suite].skipped += u32::from(case.is_named() && case.outcome == CaseOutcome::Skipped);
        counts[case.suite].unsuccessful.of(case.outcome).into_iter().for_each(|sum| *sum += 1);
        counts[deciding[case.suite]].has_reruns |= case.is_rerun();
    }
    let mut dropped = 0;
    for suite in suites.ids().rev() {
        let (declared, mut count) = (suites[suite].declared, counts[suite]);
        let has_attempts = declared.tests.is_some_and(|declared| declared < count.tests);
        if has_attempts || count.has_reruns {
            let inside = cases.get_mut(suites[suite].cases.clone()).unwrap_or_default();
            let mut groups = repeated(inside, has_attempts, |case| deciding[case.suite] == suite);
            let of_last =
                groups.iter().fold(count, |count, group| count.without(inside, group, group.last()));
            if declared.tests.is_some_and(|declared| declared < of_last.tests) {
                // It does not count tests.
                groups.retain(|group| group.is_marked);
            }
            let is_skipped_instead = declared.tests.is_some_and(|declared| {
                count.skipped > 0 && declared >= count.tests.saturating_sub(count.skipped)
            });
            let is_clear = declared.tests == Some(of_last.tests) && !is_skipped_instead
                || count.declares(declared.unsuccessful, of_last);
            for group in &groups {
                let kept =
                    if is_clear || group.is_clear(inside) { group.last() } else { group.worst(inside) };
                count = count.without(inside, group, kept);
                for attempt in group.cases.iter().filter(|attempt| **attempt != kept) {
                    if let Some(case) = inside.get_mut(*attempt) {
                        case.drop();
                        dropped += 1;
                    }
                }
            }
        }
        if let Some(outer) = suites[suite].parent {
            counts[outer].tests += count.tests;
            counts[outer].skipped += count.skipped;
            counts[outer].unsuccessful = counts[outer].unsuccessful.plus(count.unsuccessful);
        }
    }
    dropped
}

/// The named cases in a suite and the suites inside it.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    tests: u32,
    /// Some producers do not count these as tests.
    skipped: u32,
    unsuccessful: PerKind<u32>,
    has_reruns: bool,
}

impl Counts {
    /// The counts if only one attempt of a test counts.
    fn without(mut self, cases: &[CaseRecord], group: &Attempts, kept: usize) -> Self {
        for case in
            group.cases.iter().filter(|attempt| **attempt != kept).filter_map(|attempt| cases.get(*attempt))
        {
            self.tests -= 1;
            self.skipped -= u32::from(case.outcome == CaseOutcome::Skipped);
            self.unsuccessful.of(case.outcome).into_iter().for_each(|sum| *sum -= 1);
        }
        self
    }

    /// Whether a suite declares the failures and errors of the last attempts. What it does not declare must not differ.
    fn declares(self, declared: PerKind<Option<u32>>, of_last: Self) -> bool {
        let all = declared.zip_with(self.unsuccessful, Option::unwrap_or);
        (declared.failures.is_some() || declared.errors.is_some()) && all == of_last.unsuccessful
    }
}

/// Indexes of the cases of one test, in the order of the file.
#[derive(Debug, Default)]
struct Attempts {
    cases: Vec<usize>,
    is_marked: bool,
}

impl Attempts {
    fn last(&self) -> usize {
        self.cases.last().copied().unwrap_or_default()
    }

    /// Whether marks alone tell that the cases are attempts: each but the first is a rerun.
    fn is_clear(&self, cases: &[CaseRecord]) -> bool {
        let mut reruns =
            self.cases.iter().map(|attempt| cases.get(*attempt).is_some_and(CaseRecord::is_rerun));
        reruns.next() == Some(false) && reruns.all(|is_rerun| is_rerun)
    }

    fn worst(&self, cases: &[CaseRecord]) -> usize {
        let outcome = |attempt: &usize| cases.get(*attempt).map(|case| case.outcome);
        self.cases.iter().copied().max_by_key(outcome).unwrap_or_default()
    }
}

/// The tests with several cases in one suite: all if there are attempts, or those that are marked.
fn repeated(
    cases: &[CaseRecord],
    has_attempts: bool,
    is_decided: impl Fn(&CaseRecord) -> bool,
) -> Vec<Attempts> {
    let mut groups: HashMap<(SuiteId, u64), Attempts> = HashMap::new();
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| case.is_named() && is_decided(case)) {
        let group = groups.entry((case.suite, case.key)).or_default();
        group.cases.push(number);
        group.is_marked |= case.is_rerun();
    }
    groups.into_values().filter(|group| group.cases.len() > 1 && (has_attempts || group.is_marked)).collect()
}
