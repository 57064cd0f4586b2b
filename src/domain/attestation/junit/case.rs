//! One test case, and what attributes say.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::events::BytesStart;
use quick_xml::events::attributes::{AttrError, Attribute};

use super::error::Problem;
use super::failed_tests::Wrong;
use super::{LONGEST_NAME, attributes};
use crate::domain::escape::shortened;
use crate::domain::model::JunitResult;

/// What happened to a test; of several things that are said the worst, so it is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    #[default]
    Passed,
    Skipped,
    Failed,
    Errored,
}

#[derive(Debug, Default)]
pub(crate) struct Case {
    outcome: Outcome,
    /// It is meant to fail for now, whatever it did.
    is_todo: bool,
    took: Option<f64>,
    /// Failures that do not count, though some producers count them with the suite's: of tries that were
    /// not the last, and of what is still to be done.
    reruns: u64,
    /// What it is called, and what it says of its failure; empty where nobody asks.
    pub(crate) described: Wrong,
}

impl Case {
    /// The case that begins here; `keeps`: with what it is called.
    pub(crate) fn of(element: &BytesStart<'_>, keeps: bool) -> Result<Self, Problem> {
        let mut case = Self::default();
        for attribute in attributes(element) {
            let (key, value) = attribute?;
            match key {
                "time" => case.took = seconds(&value),
                // CTest and GoogleTest say it here, of what was not run here alone.
                "status" | "result" => case.is(of_status(&value)),
                "name" if keeps => case.described.name = shortened(&value, LONGEST_NAME),
                "classname" if keeps => case.described.class = shortened(&value, LONGEST_NAME),
                _ => {}
            }
        }
        Ok(case)
    }

    /// Takes note of a child. Those of tests that passed when they were tried again (`flakyFailure`) and
    /// of tries before the last (`rerunFailure`) say nothing about how the test ended.
    pub(crate) fn holds(&mut self, child: &BytesStart<'_>, keeps: bool) -> Result<(), Problem> {
        match child.local_name().as_ref() {
            "error" => {
                self.is(Outcome::Errored);
                self.described.hear(child, keeps);
            }
            "failure" => {
                self.is(Outcome::Failed);
                self.described.hear(child, keeps);
            }
            "skipped" => {
                self.is(Outcome::Skipped);
                for attribute in attributes(child) {
                    let (key, value) = attribute?;
                    match (key, &*value) {
                        // node's own runner, beside the failure.
                        ("type", "todo") => self.is_todo = true,
                        // CTest, which itself takes it for a failure.
                        ("message", "Unable to find executable") => self.is(Outcome::Errored),
                        _ => {}
                    }
                }
            }
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" => self.reruns += 1,
            _ => {}
        }
        Ok(())
    }

    /// Takes note of what is said of its failure.
    pub(crate) fn says(&mut self, text: &str) {
        if self.outcome >= Outcome::Failed {
            self.described.say(text);
        }
    }

    /// Whether it went wrong: with an error, or else a failure.
    pub(crate) fn went_wrong(&self) -> Option<bool> {
        (!self.is_todo && self.outcome >= Outcome::Failed).then_some(self.outcome == Outcome::Errored)
    }

    /// What it counts as, and how many failures were left out.
    pub(crate) fn count(self) -> (JunitResult, u64) {
        let mut result = JunitResult { total: 1, duration: self.took, ..JunitResult::default() };
        match self.outcome {
            _ if self.is_todo => result.skipped += 1,
            Outcome::Passed => {}
            Outcome::Skipped => result.skipped += 1,
            Outcome::Failed => result.failures += 1,
            Outcome::Errored => result.errors += 1,
        }
        (result, self.reruns + u64::from(self.is_todo))
    }

    fn is(&mut self, outcome: Outcome) {
        self.outcome = self.outcome.max(outcome);
    }
}

fn of_status(status: &str) -> Outcome {
    match status.trim().to_ascii_lowercase().as_str() {
        "notrun" | "notexecuted" | "disabled" | "suppressed" | "skipped" | "ignored" | "inconclusive" => {
            Outcome::Skipped
        }
        "fail" | "failed" | "failure" => Outcome::Failed,
        "error" | "errored" | "timeout" | "timedout" | "aborted" | "broken" | "cancelled" | "crashed"
        | "interrupted" => Outcome::Errored,
        _ => Outcome::Passed,
    }
}

/// An attribute's local name and its value.
pub(crate) fn attribute(read: Result<Attribute<'_>, AttrError>) -> Result<(&str, Cow<'_, str>), Problem> {
    let attribute = read.map_err(|error| Problem::Syntax(error.into()))?;
    let value = attribute.normalized_value(XmlVersion::Implicit1_0)?;
    Ok((attribute.key.local_name().into_inner(), value))
}

/// Seconds: not negative, at most what the interface's reader takes, with or without commas between
/// thousands. `None` for anything else.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let seconds: f64 = if text.contains('.') { text.replace(',', "").parse() } else { text.parse() }.ok()?;
    (0.0..=1e9).contains(&seconds).then_some(seconds)
}
