//! The failures and errors that suites declare, compared with those of their cases.

use std::collections::HashMap;
use std::ops::AddAssign;

use super::case::{CaseOutcome, PerKind};
use super::records::{CaseRecord, PerSuite, Records, Sign, SuiteId, SuiteRecord, at, deciding};

/// Limit for the errors that a suite declares beyond its cases, so that a declared number cannot distort the totals.
const MAX_OUTSIDE_ERRORS: u32 = 1_000;

/// A failed case that is marked as skipped, flaky or rerun did not fail if its suite declares fewer failures than it
/// has failed cases, and likewise for errors. Returns the number of such cases.
pub(super) fn excuse_marked(records: &mut Records) -> u64 {
    excuse(records, CaseOutcome::Failed, |kinds| kinds.failures, |elements| elements.failures)
        + excuse(records, CaseOutcome::Errored, |kinds| kinds.errors, |elements| elements.errors)
}

fn excuse(
    records: &mut Records,
    outcome: CaseOutcome,
    declared: fn(&PerKind<Option<u32>>) -> Option<u32>,
    elements: fn(&PerKind<u8>) -> u8,
) -> u64 {
    let Records { suites, cases, .. } = records;
    let deciding = deciding(suites, |suite| declared(&suite.declared.unsuccessful).is_some());
    let mut sums = suites.each(Failed::default());
    let mut marked: HashMap<SuiteId, Vec<usize>> = HashMap::new();
    // No producer counts what only we call an error.
    let failed = |case: &CaseRecord| case.counts() && case.outcome == outcome && case.sign == Sign::Clear;
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| failed(case)) {
        sums[case.suite].cases += 1;
        if case.is_excusable() {
            marked.entry(deciding[case.suite]).or_default().push(number);
        } else {
            sums[case.suite].bare_elements += u32::from(elements(&case.failing_elements));
        }
    }
    let mut excused = 0;
    for suite in suites.ids().rev() {
        let mut sum = sums[suite];
        let excess = match declared(&suites[suite].declared.unsuccessful) {
            // The producer counts assertions: the cases that are not marked have all failures that it declares.
            Some(declared) if (1..=sum.bare_elements).contains(&declared) => sum.cases,
            Some(declared) => sum.cases.saturating_sub(declared),
            None => 0,
        };
        for number in marked.remove(&suite).unwrap_or_default().into_iter().take(at(excess)) {
            if let Some(case) = cases.get_mut(number) {
                case.outcome = case.excused();
                sum.cases -= 1;
                excused += 1;
            }
        }
        if let Some(outer) = suites[suite].parent {
            sums[outer].cases += sum.cases;
            sums[outer].bare_elements += sum.bare_elements;
        }
    }
    excused
}

/// Failed cases in a suite and the suites inside it.
#[derive(Debug, Clone, Copy, Default)]
struct Failed {
    cases: u32,
    /// `failure` and `error` elements of those that are not marked.
    bare_elements: u32,
}

/// Failures and errors that a suite declares although none of its cases failed: errors outside of its cases. If a case
/// failed, its suite may count assertions, and the results do not pass anyway.
///
/// What a root element declares beyond its suites always counts: gotestsum declares a package that could not be built
/// only there.
pub(super) fn errors_outside_of_cases(records: &Records) -> PerSuite<u32> {
    let suites = &records.suites;
    let mut sums = suites.each(Unsuccessful::default());
    for case in records.cases.iter().filter(|case| case.counts()) {
        let sum = &mut sums[case.suite];
        if let Some(counted) = sum.counted.of(case.outcome) {
            *counted += 1;
            sum.elements = sum.elements.zip_with(case.failing_elements, |sum, one| sum + u32::from(one));
        }
    }
    let mut outside = suites.each(0);
    for suite in suites.ids().rev() {
        let SuiteRecord { declared, uncounted, parent, .. } = &suites[suite];
        let mut sum = sums[suite];
        let declared = declared.unsuccessful;
        // What a suite does not declare is not in the numbers around it either.
        sum.uncounted = sum.uncounted.plus(*uncounted).zip_with(
            declared.zip_with(sum.counted, |declared, counted| {
                declared.map(|number| number.saturating_sub(counted))
            }),
            |uncounted, rest| rest.map_or(uncounted, |rest| uncounted.min(rest)),
        );
        let declared = declared.zip_with(PerKind::default(), |declared, ()| declared.unwrap_or(0));
        let beyond = declared.minus(sum.counted).minus(sum.uncounted);
        let mut errors = match parent {
            None => beyond
                .minus(sum.excess)
                .zip_with(declared.minus(sum.elements), |beyond, more| if more == 0 { 0 } else { beyond }),
            Some(_) if sum.counted.sum() == 0 => beyond,
            Some(_) => PerKind::default(),
        };
        errors.errors = errors.errors.min(MAX_OUTSIDE_ERRORS);
        errors.failures = errors.failures.min(MAX_OUTSIDE_ERRORS - errors.errors);
        sum.counted = sum.counted.plus(errors);
        sum.excess = sum.excess.zip_with(beyond.minus(errors), u32::max);
        outside[suite] = errors.sum();
        if let Some(outer) = *parent {
            sums[outer] += sum;
        }
    }
    outside
}

/// Failures and errors in a suite and the suites inside it.
#[derive(Debug, Clone, Copy, Default)]
struct Unsuccessful {
    counted: PerKind<u32>,
    uncounted: PerKind<u32>,
    /// Elements in failed cases. Some producers count these.
    elements: PerKind<u32>,
    /// What suites declare beyond those that count.
    excess: PerKind<u32>,
}

impl AddAssign for Unsuccessful {
    fn add_assign(&mut self, other: Self) {
        self.counted = self.counted.plus(other.counted);
        self.uncounted = self.uncounted.plus(other.uncounted);
        self.elements = self.elements.plus(other.elements);
        self.excess = self.excess.plus(other.excess);
    }
}
