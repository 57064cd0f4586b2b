//! Copies: the same test of the same run in several files.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use super::records::{CaseRecord, PerSuite, Records, SuiteId, at};

/// Two reports of one run say the same time but for this difference: TestNG writes each with its own clock reading.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// Limits for the runs of one test and the suites that each is compared with, so that the time is linear. The last run
/// takes what exceeds them.
const MAX_RUNS: usize = 50;
const MAX_COMPARED: usize = 8;

/// A test that several files of one run contain counts once, with its worst outcome; if one file contains it several
/// times, as often as the file with most. Returns the number of cases that do not count.
pub(super) fn merge(records: &mut Records, outside: &mut PerSuite<u32>) -> u64 {
    if records.files.len() < 2 {
        return 0;
    }
    let copies = repeated_files(records, outside);
    drop_cases(records, &copies);
    let more = copies_of_cases(records);
    drop_cases(records, &more);
    merge_errors(records, outside);
    (copies.len() + more.len()) as u64
}

fn drop_cases(records: &mut Records, copies: &[usize]) {
    for copy in copies {
        records.cases.get_mut(*copy).into_iter().for_each(CaseRecord::drop);
    }
}

/// A file with the content of an earlier one is a copy, wherever it is.
fn repeated_files(records: &Records, outside: &mut PerSuite<u32>) -> Vec<usize> {
    let mut contents = HashSet::new();
    let is_repeated: Vec<_> = records.files.iter().map(|file| !contents.insert(file.content)).collect();
    let is_repeated = |suite: SuiteId| is_repeated.get(at(records.suites[suite].file)) == Some(&true);
    records.suites.ids().filter(|suite| is_repeated(*suite)).for_each(|suite| outside[suite] = 0);
    let cases = records.cases.iter().enumerate();
    cases.filter(|(_, case)| case.counts() && is_repeated(case.suite)).map(|(number, _)| number).collect()
}

fn copies_of_cases(records: &Records) -> Vec<usize> {
    let mut copies = Vec::new();
    let mut order: Vec<_> = (0..records.cases.len()).filter(|case| records.case(*case).counts()).collect();
    order.sort_by_key(|case| records.case(*case).key);
    for test in order.chunk_by(|one, other| records.case(*one).key == records.case(*other).key) {
        let file = |case: &usize| records.suites[records.case(*case).suite].file;
        if test.iter().any(|case| Some(file(case)) != test.first().map(file)) {
            for run in runs(records, test, |case| records.case(case).suite) {
                drop_all_but_worst(records, run, &mut copies);
            }
        }
    }
    copies
}

/// Of suites of one name and run in several files, the file with most errors outside of cases counts.
fn merge_errors(records: &Records, outside: &mut PerSuite<u32>) {
    let mut order: Vec<_> = records.suites.ids().filter(|suite| outside[*suite] > 0).collect();
    order.sort_by_key(|suite| records.suites[*suite].key);
    for suites in order.chunk_by(|one, other| records.suites[*one].key == records.suites[*other].key) {
        for run in runs(records, suites, |suite| suite) {
            let errors = |suites: &Vec<SuiteId>| {
                suites.iter().map(|suite| outside[*suite]).fold(0, u32::saturating_add)
            };
            let most = (0..run.len()).min_by_key(|file| Reverse(run.get(*file).map(errors)));
            for (_, suites) in run.iter().enumerate().filter(|(file, _)| Some(*file) != most) {
                for suite in suites {
                    outside[*suite] = 0;
                }
            }
        }
    }
}

/// The parts of each run, by file.
fn runs<T: Copy>(records: &Records, parts: &[T], suite_of: impl Fn(T) -> SuiteId) -> Vec<Vec<Vec<T>>> {
    struct Run<T> {
        suites: Vec<SuiteId>,
        file: u32,
        files: Vec<Vec<T>>,
    }

    let mut runs: Vec<Run<T>> = Vec::new();
    for part in parts {
        let suite = suite_of(*part);
        let file = records.suites[suite].file;
        let is_same = |run: &Run<T>| run.suites.iter().any(|other| is_same_run(records, suite, *other));
        let known = runs.iter().position(is_same);
        let known = known.or_else(|| (runs.len() == MAX_RUNS).then_some(MAX_RUNS - 1));
        match known.and_then(|known| runs.get_mut(known)) {
            None => runs.push(Run { suites: vec![suite], file, files: vec![vec![*part]] }),
            Some(run) => {
                if run.suites.len() < MAX_COMPARED && !run.suites.contains(&suite) {
                    run.suites.push(suite);
                }
                match run.files.last_mut().filter(|_| run.file == file) {
                    Some(parts) => parts.push(*part),
                    None => run.files.push(vec![*part]),
                }
                run.file = file;
            }
        }
    }
    runs.into_iter().map(|run| run.files).collect()
}

/// Whether two suites with a test of the same name report the same run. Another host or another time is another run.
/// If a time is missing, a report outside of the other's folder is, as those of several modules are.
fn is_same_run(records: &Records, one: SuiteId, other: SuiteId) -> bool {
    let (one, other) = (&records.suites[one], &records.suites[other]);
    let (Some(file), Some(of_other)) = (records.file(one), records.file(other)) else { return false };
    if let (Some(host), Some(of_other)) = (one.host, other.host)
        && host != of_other
    {
        return false;
    }
    let has_same_folder =
        file.folder.starts_with(&of_other.folder) || of_other.folder.starts_with(&file.folder);
    match (one.start, other.start) {
        (Some(start), Some(other)) if start.has_offset == other.has_offset => {
            let is_dated_late = file.is_dated_late || of_other.is_dated_late;
            start.at.distance(other.at) <= MAX_CLOCK_DIFFERENCE || (is_dated_late && has_same_folder)
        }
        _ => has_same_folder,
    }
}

/// Of the cases of one test in several files, keeps the worst at each rank.
fn drop_all_but_worst(records: &Records, mut files: Vec<Vec<usize>>, dropped: &mut Vec<usize>) {
    if files.len() < 2 {
        return;
    }
    let outcome = |case: usize| records.case(case).outcome;
    for cases in &mut files {
        cases.sort_by_key(|case| Reverse(outcome(*case)));
    }
    for rank in 0..files.iter().map(Vec::len).max().unwrap_or_default() {
        let same: Vec<_> = files.iter().filter_map(|cases| cases.get(rank).copied()).collect();
        let worst = same.iter().copied().min_by_key(|case| Reverse(outcome(*case)));
        dropped.extend(same.into_iter().filter(|case| Some(*case) != worst));
    }
}
