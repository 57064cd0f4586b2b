//! One test case as its element says, before the suite's totals and other files are considered.

use quick_xml::events::BytesStart;

use super::attributes::{MAX_NAME_CHARS, attributes, is_set, seconds};
use super::error::Problem;
use super::failed_tests::FailedTest;
use model::escape::{Escaped, shortened};

/// Outcome of a test, from best to worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CaseOutcome {
    #[default]
    Passed,
    Skipped,
    Failed,
    Errored,
}

/// What a test case is marked as beside its outcome. Only a marked case can be excused by the totals of its suite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) is_skipped: bool,
    pub(super) is_flaky: bool,
    pub(super) is_rerun: bool,
}

/// Why a test case without a child that says otherwise did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Doubt {
    Nameless,
    /// A status that is not a known word of passing, skipping or failing.
    Status(String),
}

#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) class: String,
    pub(super) name: String,
    pub(super) duration: Option<f64>,
    pub(super) marks: Marks,
    /// Failures that do not count: of attempts before the last, and of `todo` tests. Some producers include
    /// them in the suite's own numbers.
    pub(super) uncounted_failures: u32,
    /// `failure` and `error` elements. Some producers count these instead of tests.
    pub(super) failing_elements: u8,
    /// The worst that a child says.
    of_children: Option<CaseOutcome>,
    /// The worst that `status` and `result` say.
    of_status: CaseOutcome,
    /// A status that is an error.
    status: Option<String>,
    /// The test is expected to fail for now and counts as skipped.
    is_todo: bool,
    message: String,
    output: String,
}

impl Case {
    pub(super) fn new(element: &BytesStart<'_>) -> Result<Self, Problem> {
        let mut case = Self::default();
        for attribute in attributes(element) {
            let (key, value) = attribute?;
            match key {
                "time" => case.duration = seconds(&value),
                // CTest and GoogleTest mark skipped tests only here.
                "status" | "result" => case.record_status(&value),
                "name" => case.name = value.into_owned(),
                "classname" => case.class = value.into_owned(),
                "flaky" => case.marks.is_flaky |= is_set(&value),
                "rerun" | "retry" => case.marks.is_rerun |= is_set(&value),
                _ => {}
            }
        }
        Ok(case)
    }

    /// A `failure` or `error` of a suite itself.
    pub(super) fn of_suite(child: &BytesStart<'_>) -> Result<Self, Problem> {
        let mut case = Self::default();
        case.record_child(child)?;
        Ok(case)
    }

    /// Records a child element. `flakyFailure` (of a test that passed when it was retried) and `rerunFailure`
    /// (of an attempt before the last) do not affect the outcome.
    pub(super) fn record_child(&mut self, child: &BytesStart<'_>) -> Result<(), Problem> {
        match child.local_name().as_ref() {
            name @ ("error" | "failure") => {
                self.record(if name == "error" { CaseOutcome::Errored } else { CaseOutcome::Failed });
                self.failing_elements = self.failing_elements.saturating_add(1);
                if self.message.is_empty() {
                    self.message = FailedTest::message_of(child);
                }
            }
            "skipped" => {
                self.record(CaseOutcome::Skipped);
                self.marks.is_skipped = true;
                for attribute in attributes(child) {
                    let (key, value) = attribute?;
                    match (key, &*value) {
                        // Node's test runner writes this beside the failure.
                        ("type", "todo") => self.is_todo = true,
                        // CTest itself counts this as a failure.
                        ("message", "Unable to find executable") => {
                            self.record(CaseOutcome::Errored);
                            self.marks.is_skipped = false;
                        }
                        _ => {}
                    }
                }
            }
            name @ ("flakyFailure" | "flakyError" | "rerunFailure" | "rerunError") => {
                self.marks.is_flaky |= name.starts_with("flaky");
                self.uncounted_failures = self.uncounted_failures.saturating_add(1);
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends text of the failure.
    pub(super) fn append_output(&mut self, text: &str) {
        if self.of_children >= Some(CaseOutcome::Failed) || self.of_status == CaseOutcome::Failed {
            FailedTest::append_output(&mut self.output, text);
        }
    }

    pub(super) fn is_named(&self) -> bool {
        !self.name.trim().is_empty()
    }

    /// The outcome that the element says, and the doubt if only that makes it an error. A child that says something
    /// explains a status that is not known.
    pub(super) fn outcome(&self) -> (CaseOutcome, Option<Doubt>) {
        match (self.of_children, &self.status) {
            _ if self.is_todo => (CaseOutcome::Skipped, None),
            (Some(outcome), _) => (outcome.max(self.of_status), None),
            (None, Some(word)) => (CaseOutcome::Errored, Some(Doubt::Status(word.clone()))),
            (None, None) if self.of_status == CaseOutcome::Passed && !self.is_named() => {
                (CaseOutcome::Errored, Some(Doubt::Nameless))
            }
            (None, None) => (self.of_status, None),
        }
    }

    /// Failures that do not count.
    pub(super) fn uncounted(&self) -> u32 {
        self.uncounted_failures.saturating_add(u32::from(self.is_todo))
    }

    /// The description of a test that failed.
    pub(super) fn failed_test(&self, suite: &str) -> FailedTest {
        let (outcome, doubt) = self.outcome();
        let message = match doubt {
            Some(Doubt::Nameless) => "the test case has no name".to_owned(),
            Some(Doubt::Status(word)) => format!("the status is \"{}\"", Escaped(&word)),
            None => self.message.clone(),
        };
        FailedTest {
            suite: suite.to_owned(),
            class: shortened(&self.class, MAX_NAME_CHARS),
            name: shortened(&self.name, MAX_NAME_CHARS),
            is_error: outcome == CaseOutcome::Errored,
            message,
            output: self.output.trim().to_owned(),
        }
    }

    fn record(&mut self, outcome: CaseOutcome) {
        self.of_children = self.of_children.max(Some(outcome));
    }

    fn record_status(&mut self, status: &str) {
        match StatusWord::of(status) {
            StatusWord::Absent => {}
            StatusWord::Known(outcome) => {
                self.marks.is_skipped |= outcome == CaseOutcome::Skipped;
                self.of_status = self.of_status.max(outcome);
                if outcome == CaseOutcome::Errored {
                    self.status = Some(shortened(status.trim(), MAX_STATUS_CHARS));
                }
            }
            StatusWord::Unknown => self.status = Some(shortened(status.trim(), MAX_STATUS_CHARS)),
        }
    }
}

/// Limit for a status in a message, in characters.
const MAX_STATUS_CHARS: usize = 40;

enum StatusWord {
    Absent,
    Known(CaseOutcome),
    /// An error, unless a child says otherwise.
    Unknown,
}

impl StatusWord {
    fn of(status: &str) -> Self {
        let word: String = status.chars().filter(|c| !matches!(c, '_' | '-') && !c.is_whitespace()).collect();
        Self::Known(match word.to_lowercase().as_str() {
            "" => return Self::Absent,
            "run" | "ran" | "ok" | "pass" | "passed" | "success" | "successful" | "succeeded"
            | "complete" | "completed" => CaseOutcome::Passed,
            "notrun" | "notexecuted" | "disabled" | "suppressed" | "skip" | "skipped" | "ignored"
            | "inconclusive" => CaseOutcome::Skipped,
            "fail" | "failed" | "failure" => CaseOutcome::Failed,
            "error" | "errored" | "timeout" | "timedout" | "abort" | "aborted" | "broken" | "canceled"
            | "cancelled" | "crash" | "crashed" | "interrupted" | "killed" | "panicked" => {
                CaseOutcome::Errored
            }
            _ => return Self::Unknown,
        })
    }
}
