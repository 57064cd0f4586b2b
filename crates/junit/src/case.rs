//! One test case and its outcome.

use quick_xml::events::BytesStart;

use super::attributes::{MAX_NAME_CHARS, attributes, seconds};
use super::error::Problem;
use super::failed_tests::FailedTest;
use model::JunitResult;
use model::escape::shortened;

/// Outcome of a test, from best to worst. The worst one counts, so that a test is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum CaseOutcome {
    #[default]
    Passed,
    Skipped,
    Failed,
    Errored,
}

#[derive(Debug, Default)]
pub(super) struct Case {
    outcome: CaseOutcome,
    /// The test is expected to fail for now and counts as skipped.
    is_todo: bool,
    duration: Option<f64>,
    /// Failures that do not count: of attempts before the last, and of `todo` tests. Some producers include
    /// them in the suite's own numbers.
    uncounted_failures: u64,
    /// The test's name and failures.
    description: FailedTest,
}

impl Case {
    pub(super) fn new(element: &BytesStart<'_>) -> Result<Self, Problem> {
        let mut case = Self::default();
        for attribute in attributes(element) {
            let (key, value) = attribute?;
            match key {
                "time" => case.duration = seconds(&value),
                // CTest and GoogleTest mark skipped tests only here.
                "status" | "result" => case.record(outcome_from_status(&value)),
                "name" => case.description.name = shortened(&value, MAX_NAME_CHARS),
                "classname" => case.description.class = shortened(&value, MAX_NAME_CHARS),
                _ => {}
            }
        }
        Ok(case)
    }

    /// Records a child element. `flakyFailure` (of a test that passed when it was retried) and `rerunFailure`
    /// (of an attempt before the last) do not affect the outcome.
    pub(super) fn record_child(&mut self, child: &BytesStart<'_>) -> Result<(), Problem> {
        match child.local_name().as_ref() {
            name @ ("error" | "failure") => {
                self.record(if name == "error" { CaseOutcome::Errored } else { CaseOutcome::Failed });
                self.description.record_message(child);
            }
            "skipped" => {
                self.record(CaseOutcome::Skipped);
                for attribute in attributes(child) {
                    let (key, value) = attribute?;
                    match (key, &*value) {
                        // Node's test runner writes this beside the failure.
                        ("type", "todo") => self.is_todo = true,
                        // CTest itself counts this as a failure.
                        ("message", "Unable to find executable") => self.record(CaseOutcome::Errored),
                        _ => {}
                    }
                }
            }
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" => self.uncounted_failures += 1,
            _ => {}
        }
        Ok(())
    }

    /// Appends text of the failure.
    pub(super) fn append_output(&mut self, text: &str) {
        if self.outcome >= CaseOutcome::Failed {
            self.description.append_output(text);
        }
    }

    /// Takes the description of a failed test out of the case. `None` if the test did not fail.
    pub(super) fn take_failed_test(&mut self, suite: &str) -> Option<FailedTest> {
        if self.is_todo || self.outcome < CaseOutcome::Failed {
            return None;
        }
        let description = std::mem::take(&mut self.description);
        Some(FailedTest {
            suite: suite.to_owned(),
            is_error: self.outcome == CaseOutcome::Errored,
            output: description.output.trim().to_owned(),
            ..description
        })
    }

    /// The result of this one test, and the number of failures that do not count.
    pub(super) fn count(self) -> (JunitResult, u64) {
        let mut result = JunitResult { total: 1, duration: self.duration, ..JunitResult::default() };
        match self.outcome {
            _ if self.is_todo => result.skipped += 1,
            CaseOutcome::Passed => {}
            CaseOutcome::Skipped => result.skipped += 1,
            CaseOutcome::Failed => result.failures += 1,
            CaseOutcome::Errored => result.errors += 1,
        }
        (result, self.uncounted_failures + u64::from(self.is_todo))
    }

    fn record(&mut self, outcome: CaseOutcome) {
        self.outcome = self.outcome.max(outcome);
    }
}

fn outcome_from_status(status: &str) -> CaseOutcome {
    match status.trim().to_ascii_lowercase().as_str() {
        "notrun" | "notexecuted" | "disabled" | "suppressed" | "skipped" | "ignored" | "inconclusive" => {
            CaseOutcome::Skipped
        }
        "fail" | "failed" | "failure" => CaseOutcome::Failed,
        "error" | "errored" | "timeout" | "timedout" | "aborted" | "broken" | "cancelled" | "crashed"
        | "interrupted" => CaseOutcome::Errored,
        _ => CaseOutcome::Passed,
    }
}
