//! The result of each outermost suite.

use super::case::CaseOutcome;
use super::records::{PerSuite, Records, at};
use model::{JunitResult, Text};

/// Whether something counts in each result.
pub(super) fn with_content(records: &Records, outside: &PerSuite<u32>) -> Vec<bool> {
    let mut has_content = vec![false; records.results.len()];
    let suites = records.suites.ids().filter(|suite| outside[*suite] > 0);
    let cases = records.cases.iter().filter(|case| case.counts()).map(|case| case.suite);
    for suite in cases.chain(suites) {
        if let Some(has_content) =
            records.suites[suite].result.and_then(|result| has_content.get_mut(at(result)))
        {
            *has_content = true;
        }
    }
    has_content
}

/// The results, without those of copies only.
pub(super) fn of(records: &mut Records, outside: &PerSuite<u32>, had_content: &[bool]) -> Vec<JunitResult> {
    name(records, outside);
    let durations = durations(records);
    let Records { suites, cases, results, .. } = records;
    for case in cases.iter().filter(|case| case.counts()) {
        let Some(result) = suites[case.suite].result.and_then(|result| results.get_mut(at(result))) else {
            continue;
        };
        result.total = result.total.saturating_add(1);
        match case.outcome {
            CaseOutcome::Passed => {}
            CaseOutcome::Skipped => result.skipped += 1,
            CaseOutcome::Failed => result.failures += 1,
            CaseOutcome::Errored => result.errors += 1,
        }
    }
    for suite in suites.ids() {
        if let Some(result) = suites[suite].result.and_then(|result| results.get_mut(at(result))) {
            let (total, errors, duration) = (outside[suite], outside[suite], durations[suite]);
            result.add(&JunitResult { total, errors, duration, ..JunitResult::default() });
        }
    }
    let mut had_content = had_content.iter();
    results.retain(|result| had_content.next() != Some(&true) || result.total > 0);
    for result in &mut *results {
        // A sum of floating-point seconds has digits that were never measured.
        result.duration = result.duration.map(|seconds| (seconds * 1e6).round() / 1e6);
    }
    std::mem::take(results)
}

/// Gives a result to each root element with cases or errors of its own, and the name of the file to results without one.
fn name(records: &mut Records, outside: &PerSuite<u32>) {
    let mut has_cases = records.suites.each(false);
    for case in records.cases.iter().filter(|case| case.counts()) {
        has_cases[case.suite] = true;
    }
    for suite in records.suites.ids() {
        let Some(file) = records.file(&records.suites[suite]) else { continue };
        let (stem, mut root) = (file.stem.clone(), file.root.clone());
        if let Some(result) = records.suites[suite].result {
            let unnamed =
                records.results.get_mut(at(result)).filter(|result| result.name.as_str().is_empty());
            if let Some(result) = unnamed {
                result.name = stem;
            }
        } else if outside[suite] > 0 || has_cases[suite] {
            if root.name.as_str().is_empty() {
                let not_run = Text::new("tests that could not be run").unwrap_or_default();
                root.name = if outside[suite] > 0 { not_run } else { stem };
            }
            records.suites[suite].result = Some(records.add_result(root));
        }
    }
}

/// The seconds of each suite beside those of the suites inside it: the sum of its cases that count, or what it
/// declares if no case inside it has a time.
fn durations(records: &Records) -> PerSuite<Option<f64>> {
    let suites = &records.suites;
    let mut durations: PerSuite<Option<f64>> = suites.each(None);
    let mut has_time = suites.each(false);
    let mut counts = suites.each(false);
    for case in records.cases.iter().filter(|case| case.counts()) {
        counts[case.suite] = true;
        if !case.duration.is_nan() {
            let sum = &mut durations[case.suite];
            *sum = Some(sum.unwrap_or(0.0) + case.duration);
        }
    }
    for suite in suites.ids().rev() {
        let record = &suites[suite];
        counts[suite] |= record.cases.is_empty();
        if let Some(outer) = record.parent {
            if durations[suite].is_none() && !has_time[suite] && counts[suite] {
                durations[suite] = record.declared.seconds;
            }
            has_time[outer] |= has_time[suite] || durations[suite].is_some();
            counts[outer] |= counts[suite];
        }
    }
    durations
}
