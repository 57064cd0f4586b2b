//! One test case as its element says, before the suite's totals and other files are considered.

use quick_xml::events::BytesStart;

use super::attributes::{MAX_NAME_CHARS, attributes, is_set, seconds};
use super::decisions::Doubt;
use super::error::Problem;
use super::failed_tests::FailedTest;
use model::escape::{needs_escape, shortened};

/// Outcome of a test, from best to worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CaseOutcome {
    #[default]
    Passed,
    Skipped,
    Failed,
    Errored,
}

/// A value for failures and one for errors, which are compared separately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PerKind<T> {
    pub(super) failures: T,
    pub(super) errors: T,
}

impl<T> PerKind<T> {
    /// The value for cases with this outcome; `None` if they are successful.
    pub(super) fn of(&mut self, outcome: CaseOutcome) -> Option<&mut T> {
        match outcome {
            CaseOutcome::Failed => Some(&mut self.failures),
            CaseOutcome::Errored => Some(&mut self.errors),
            CaseOutcome::Passed | CaseOutcome::Skipped => None,
        }
    }

    pub(super) fn zip_with<U, V>(self, other: PerKind<U>, f: impl Fn(T, U) -> V) -> PerKind<V> {
        PerKind { failures: f(self.failures, other.failures), errors: f(self.errors, other.errors) }
    }
}

impl PerKind<u32> {
    pub(super) fn sum(self) -> u32 {
        self.failures.saturating_add(self.errors)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.zip_with(other, u32::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.zip_with(other, u32::saturating_sub)
    }
}

/// What a test case is marked as beside its outcome. Only a marked case can be excused by the totals of its suite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) is_skipped: bool,
    pub(super) is_flaky: bool,
    pub(super) is_rerun: bool,
}

#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) class: String,
    pub(super) name: String,
    pub(super) duration: Option<f64>,
    pub(super) marks: Marks,
    /// `flakyFailure` and `flakyError`.
    flaky: PerKind<u32>,
    /// `rerunFailure` and `rerunError`.
    reruns: PerKind<u32>,
    /// `failure` and `error` elements. Some producers count these instead of tests.
    pub(super) failing_elements: PerKind<u8>,
    /// The worst that a child says.
    of_children: Option<CaseOutcome>,
    /// The worst that `status` and `result` say.
    of_status: CaseOutcome,
    /// A status that is an error.
    status: Option<String>,
    /// A child that is not known, or an unclear total of a suite: an error whatever else the element says.
    doubt: Option<Doubt>,
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
            match key.to_ascii_lowercase().as_str() {
                "time" => case.duration = seconds(&value),
                "name" => case.name = value.into_owned(),
                "classname" => case.class = value.into_owned(),
                "flaky" => case.marks.is_flaky |= is_set(&value),
                "rerun" | "retry" => case.marks.is_rerun |= is_set(&value),
                "success" => case.record_status(success(&value)),
                // CTest and GoogleTest mark skipped tests only here.
                "status" | "result" | "outcome" | "state" => case.record_status(&value),
                _ => {}
            }
        }
        Ok(case)
    }

    /// A total of a suite that is not a number.
    pub(super) fn of_total(attribute: &str, value: &str) -> Self {
        let doubt = Doubt::Total {
            attribute: attribute.to_owned(),
            value: shortened(value.trim(), MAX_STATUS_CHARS),
        };
        Self { doubt: Some(doubt), ..Self::default() }
    }

    /// A child of a suite that is not known.
    pub(super) fn of_child(name: &str) -> Self {
        Self { doubt: Some(Doubt::Child(shortened(name, MAX_STATUS_CHARS))), ..Self::default() }
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
                let outcome = if name == "error" { CaseOutcome::Errored } else { CaseOutcome::Failed };
                self.record(outcome);
                self.failing_elements.of(outcome).into_iter().for_each(|sum| *sum = sum.saturating_add(1));
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
            "flakyFailure" => {
                self.marks.is_flaky = true;
                self.flaky.failures = self.flaky.failures.saturating_add(1);
            }
            "flakyError" => {
                self.marks.is_flaky = true;
                self.flaky.errors = self.flaky.errors.saturating_add(1);
            }
            "rerunFailure" => self.reruns.failures = self.reruns.failures.saturating_add(1),
            "rerunError" => self.reruns.errors = self.reruns.errors.saturating_add(1),
            "properties" | "system-out" | "system-err" => {}
            name => self.doubt = Some(Doubt::Child(shortened(name, MAX_STATUS_CHARS))),
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
        !self.name.chars().all(|c| c.is_whitespace() || needs_escape(c))
    }

    /// A `todo` test may fail, but no producer writes an error for it.
    fn is_excused_todo(&self) -> bool {
        self.is_todo && self.of_children.max(Some(self.of_status)) <= Some(CaseOutcome::Failed)
    }

    pub(super) fn is_failed_by_status(&self) -> bool {
        self.of_status >= CaseOutcome::Failed || self.status.is_some()
    }

    /// The outcome that the element says, and the doubt if only that makes it an error. A child that says something
    /// explains a status that is not known.
    pub(super) fn outcome(&self) -> (CaseOutcome, Option<Doubt>) {
        if let Some(doubt) = &self.doubt {
            return (CaseOutcome::Errored, Some(doubt.clone()));
        }
        match (self.of_children, &self.status) {
            _ if self.is_excused_todo() => (CaseOutcome::Skipped, None),
            (Some(outcome), _) => (outcome.max(self.of_status), None),
            (None, Some(word)) => (CaseOutcome::Errored, Some(Doubt::Status(word.clone()))),
            (None, None) if self.of_status == CaseOutcome::Passed && !self.is_named() => {
                (CaseOutcome::Errored, Some(Doubt::Nameless))
            }
            (None, None) => (self.of_status, None),
        }
    }

    /// Failures that do not count: of attempts before the last, and of a `todo` test. Some producers include them in
    /// the suite's own numbers. Attempts before one that failed say nothing about a test that did not fail.
    pub(super) fn uncounted(&self) -> PerKind<u32> {
        let mut uncounted = self.flaky;
        if self.is_excused_todo() {
            let outcome = self.of_children.max(Some(self.of_status)).unwrap_or_default();
            uncounted.of(outcome).into_iter().for_each(|sum| *sum = sum.saturating_add(1));
        } else if self.outcome().0 >= CaseOutcome::Failed {
            uncounted = uncounted.plus(self.reruns);
        }
        uncounted
    }

    /// The description of a test that failed.
    pub(super) fn failed_test(&self, suite: &str) -> FailedTest {
        let (outcome, doubt) = self.outcome();
        let message = doubt.map_or_else(|| self.message.clone(), |doubt| doubt.to_string());
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

/// The status that `success` means.
fn success(value: &str) -> &str {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => "passed",
        "false" | "no" | "0" => "failed",
        _ => value,
    }
}

/// Limit for a status, total or name of a child in a message, in characters.
const MAX_STATUS_CHARS: usize = 40;

enum StatusWord {
    Absent,
    Known(CaseOutcome),
    /// An error, unless a child says otherwise.
    Unknown,
}

impl StatusWord {
    fn of(status: &str) -> Self {
        let word = status.trim().to_lowercase().replace(['_', '-'], " ");
        Self::Known(match word.as_str() {
            "" => return Self::Absent,
            "run" | "ran" | "ok" | "pass" | "passed" | "success" | "successful" | "succeeded"
            | "complete" | "completed" => CaseOutcome::Passed,
            "notrun" | "not run" | "notexecuted" | "not executed" | "disabled" | "suppressed" | "skip"
            | "skipped" | "ignored" | "inconclusive" => CaseOutcome::Skipped,
            "fail" | "failed" | "failure" => CaseOutcome::Failed,
            "error" | "errored" | "timeout" | "time out" | "timedout" | "timed out" | "abort" | "aborted"
            | "broken" | "canceled" | "cancelled" | "crash" | "crashed" | "interrupted" | "killed"
            | "panicked" => CaseOutcome::Errored,
            _ => return Self::Unknown,
        })
    }
}
