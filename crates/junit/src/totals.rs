//! The failures and errors that suites declare, compared with those of their cases.

use std::collections::HashMap;
use std::ops::AddAssign;

use super::decide::deciding;
use super::records::{CaseRecord, PerSuite, Records, Sign, SuiteId, at};

/// Limit for the errors that a suite declares beyond its cases, so that a declared number cannot distort the totals.
const MAX_OUTSIDE_ERRORS: u32 = 1_000;

/// A failed case that is marked as skipped, flaky or rerun did not fail if its suite declares fewer failures than it
/// has failed cases. Returns the number of such cases.
pub(super) fn excuse_marked(records: &mut Records) -> u64 {
    let Records { suites, cases, .. } = records;
    let deciding = deciding(suites, |suite| suite.declared.unsuccessful.is_some());
    let mut sums = suites.each(Failed::default());
    let mut marked: HashMap<SuiteId, Vec<usize>> = HashMap::new();
    // No producer counts what only we call an error.
    let failed = |case: &CaseRecord| case.counts() && case.is_unsuccessful() && case.sign == Sign::Clear;
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| failed(case)) {
        sums[case.suite].cases += 1;
        if case.is_marked() {
            marked.entry(deciding[case.suite]).or_default().push(number);
        } else {
            sums[case.suite].bare_elements += u32::from(case.failing_elements);
        }
    }
    let mut excused = 0;
    for suite in suites.ids().rev() {
        let mut sum = sums[suite];
        let excess = match suites[suite].declared.unsuccessful {
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
    for case in records.cases.iter().filter(|case| case.counts() && case.is_unsuccessful()) {
        sums[case.suite].counted += 1;
        sums[case.suite].elements += u32::from(case.failing_elements);
    }
    let mut outside = suites.each(0);
    for suite in suites.ids().rev() {
        let mut sum = sums[suite];
        sum.uncounted = sum.uncounted.saturating_add(suites[suite].uncounted_failures);
        let declared = suites[suite].declared.unsuccessful.unwrap_or(0);
        let beyond = declared.saturating_sub(sum.counted.saturating_add(sum.uncounted));
        let errors = match suites[suite].parent {
            None if declared <= sum.elements => 0,
            None => beyond.saturating_sub(sum.excess),
            Some(_) if sum.counted == 0 => beyond,
            Some(_) => 0,
        };
        let errors = errors.min(MAX_OUTSIDE_ERRORS);
        sum.counted = sum.counted.saturating_add(errors);
        sum.excess = sum.excess.max(beyond - errors);
        outside[suite] = errors;
        if let Some(outer) = suites[suite].parent {
            sums[outer] += sum;
        }
    }
    outside
}

/// Failures and errors in a suite and the suites inside it.
#[derive(Debug, Clone, Copy, Default)]
struct Unsuccessful {
    counted: u32,
    uncounted: u32,
    /// Elements in failed cases. Some producers count these.
    elements: u32,
    /// What suites declare beyond those that count.
    excess: u32,
}

impl AddAssign for Unsuccessful {
    fn add_assign(&mut self, other: Self) {
        self.counted = self.counted.saturating_add(other.counted);
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
        self.elements = self.elements.saturating_add(other.elements);
        self.excess = self.excess.saturating_add(other.excess);
    }
}
