//! Reads the test results of a JUnit XML file.
//!
//! Called by `attest junit` with the whole file. No standard defines JUnit XML, and producers differ. They agree
//! that a test is a `testcase` and that its children are its outcome. Totals are therefore counted from the test
//! cases, and the numbers of a suite are only compared with them. Pure: fetches and expands nothing, and
//! reports a problem with its line and column.

#![warn(missing_docs)]

mod attributes;
mod case;
mod encoding;
mod error;
mod failed_tests;
#[cfg(test)]
mod tests;

pub use error::{JunitError, Problem, TextPosition};
pub use failed_tests::FailedTest;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use self::attributes::{MAX_NAME_CHARS, attributes, seconds};
use self::case::Case;
use self::error::at;
use model::escape::shortened;
use model::{JunitResult, Text, Timestamp};

/// Limit for nested elements.
const MAX_DEPTH: usize = 256;

/// Content of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// One for each outermost suite, which includes the suites inside it. [`add`] limits the number.
    pub results: Vec<JunitResult>,
    /// Suites that declare more failures and errors than their test cases show.
    pub mismatches: Vec<CountMismatch>,
}

/// A suite that declares more failures and errors than its test cases show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountMismatch {
    /// The suite's name.
    pub suite: String,
    /// Failures and errors that the suite declares.
    pub declared: u64,
    /// Failures and errors of its test cases.
    pub counted: u64,
}

/// Reads a file.
///
/// # Errors
///
/// [`JunitError`] if the file is not XML, has another root element, or is truncated.
pub fn read(bytes: &[u8]) -> Result<Results, JunitError> {
    parse(bytes, 0).map(|(results, _)| results)
}

/// The failed tests of a file in its order, up to `limit`: the failures and errors that [`read`] counts and
/// that have a test case.
///
/// # Errors
///
/// As [`read`].
pub fn failed_tests(bytes: &[u8], limit: usize) -> Result<Vec<FailedTest>, JunitError> {
    parse(bytes, limit).map(|(_, tests)| tests)
}

fn parse(bytes: &[u8], max_failed: usize) -> Result<(Results, Vec<FailedTest>), JunitError> {
    let text = encoding::decode(bytes)?;
    let (mut reader, mut counter) = (Reader::from_str(&text), Counter { max_failed, ..Counter::default() });
    loop {
        let before = position(reader.buffer_position());
        let event = reader.read_event();
        let applied = match event {
            Ok(Event::Eof) => {
                return counter.finish().map_err(|(problem, offset)| at(&text, offset, problem));
            }
            Ok(event) => counter.apply(&event, before),
            Err(error) => {
                let offset = position(reader.error_position());
                return Err(at(&text, offset, error.into()));
            }
        };
        applied.map_err(|problem| at(&text, before, problem))?;
    }
}

/// Limit for the results of an attestation, so that a service can store and show them.
const MAX_RESULTS: usize = 2_000;

/// Limit for the mismatches of a file.
const MAX_MISMATCHES: usize = 100;

/// Adds a result. From the 2,000th on, results are summed into the last one.
pub fn add(results: &mut Vec<JunitResult>, result: JunitResult) {
    let is_full = results.len() >= MAX_RESULTS;
    match results.last_mut() {
        Some(last) if is_full => {
            last.add(&result);
            last.name = Text::new("all other suites").unwrap_or_default();
        }
        _ => results.push(result),
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The open elements and the results so far.
#[derive(Debug, Default)]
struct Counter {
    open: Vec<OpenElement>,
    has_root: bool,
    root: Suite,
    found: Results,
    failed: Vec<FailedTest>,
    max_failed: usize,
}

#[derive(Debug)]
struct OpenElement {
    /// Where the element starts, in bytes.
    offset: usize,
    kind: ElementKind,
}

#[derive(Debug)]
enum ElementKind {
    /// `testsuites`, or an unknown element that may contain suites.
    Container,
    Suite(Suite),
    Case(Case),
    /// `failure` or `error` of a test case.
    Failure,
    /// Output, properties and other children of a test case. Their content does not count.
    Ignored,
}

/// A suite and its counts so far.
#[derive(Debug, Default)]
struct Suite {
    result: JunitResult,
    /// Failures and errors that the suite declares.
    declared: u64,
    /// Failures inside it that do not count.
    uncounted_failures: u64,
    /// Failures and errors that the suite, or a suite inside it, declares beyond those that count.
    excess: u64,
    /// Seconds that the suite declares.
    declared_duration: Option<f64>,
}

impl Counter {
    fn apply(&mut self, event: &Event<'_>, offset: usize) -> Result<(), Problem> {
        match event {
            Event::Start(element) => self.start(element, offset),
            Event::Empty(element) => self.start(element, offset).map(|()| self.end()),
            Event::End(_) => {
                self.end();
                Ok(())
            }
            Event::GeneralRef(reference) => {
                let character = match &**reference {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    "apos" => '\'',
                    number if number.starts_with('#') => {
                        reference.resolve_char_ref().ok().flatten().unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    name => return Err(Problem::Entity(name.to_owned())),
                };
                self.append_output(character.encode_utf8(&mut [0; 4]));
                Ok(())
            }
            Event::Text(text) if self.open.is_empty() && !text.trim().is_empty() => Err(Problem::NoElement),
            Event::CData(_) if self.open.is_empty() => Err(Problem::NoElement),
            Event::Text(text) => {
                self.append_output(text);
                Ok(())
            }
            Event::CData(text) => {
                self.append_output(text);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Appends text inside of a test case or its failure.
    fn append_output(&mut self, text: &str) {
        if let [
            ..,
            OpenElement { kind: ElementKind::Case(case), .. },
            OpenElement { kind: ElementKind::Failure, .. },
        ]
        | [.., OpenElement { kind: ElementKind::Case(case), .. }] = self.open.as_mut_slice()
        {
            case.append_output(text);
        }
    }

    fn start(&mut self, element: &BytesStart<'_>, offset: usize) -> Result<(), Problem> {
        let local = element.local_name();
        let name = local.as_ref();
        if self.open.len() >= MAX_DEPTH {
            return Err(Problem::Deep(MAX_DEPTH));
        }
        let kind = match self.open.last_mut() {
            None if self.has_root => return Err(Problem::SecondRoot),
            None if !matches!(name, "testsuites" | "testsuite") => {
                return Err(Problem::Root(name.to_owned()));
            }
            Some(OpenElement { kind: ElementKind::Ignored | ElementKind::Failure, .. }) => {
                ElementKind::Ignored
            }
            Some(OpenElement { kind: ElementKind::Case(case), .. })
                if !matches!(name, "testcase" | "testsuite") =>
            {
                case.record_child(element)?;
                if matches!(name, "failure" | "error") { ElementKind::Failure } else { ElementKind::Ignored }
            }
            None | Some(_) => match name {
                "testsuite" => ElementKind::Suite(Suite::new(element)?),
                "testcase" => ElementKind::Case(Case::new(element)?),
                "system-out" | "system-err" | "properties" => ElementKind::Ignored,
                // The suite itself could not be run.
                "failure" | "error" => {
                    let mut case = Case::default();
                    case.record_child(element)?;
                    ElementKind::Case(case)
                }
                _ => {
                    if self.open.is_empty() {
                        self.root = Suite::new(element)?;
                    }
                    ElementKind::Container
                }
            },
        };
        self.has_root = true;
        self.open.push(OpenElement { offset, kind });
        Ok(())
    }

    /// Closes an element and adds its counts to the enclosing suite.
    fn end(&mut self) {
        let ended = self.open.pop().map(|open| open.kind);
        let outer = self.open.iter_mut().rev().find_map(|open| match &mut open.kind {
            ElementKind::Suite(suite) => Some(suite),
            _ => None,
        });
        match (ended, outer) {
            (Some(ElementKind::Case(mut case)), suite) => {
                // Some producers write test cases outside of any suite.
                let suite = suite.unwrap_or(&mut self.root);
                if self.failed.len() < self.max_failed
                    && let Some(test) = case.take_failed_test(suite.result.name.as_str())
                {
                    self.failed.push(test);
                }
                suite.add_case(case);
            }
            (Some(ElementKind::Suite(mut suite)), Some(outer)) => {
                suite.finish(&mut self.found.mismatches);
                outer.add_suite(&suite);
            }
            (Some(ElementKind::Suite(mut suite)), None) => {
                suite.finish(&mut self.found.mismatches);
                self.root.uncounted_failures += suite.uncounted_failures;
                self.root.excess = self.root.excess.saturating_add(suite.excess);
                add(&mut self.found.results, suite.result);
            }
            _ => {}
        }
    }

    /// The results and failed tests, or a problem and its offset.
    fn finish(self) -> Result<(Results, Vec<FailedTest>), (Problem, usize)> {
        if let Some(OpenElement { offset, .. }) = self.open.last() {
            return Err((Problem::Open, *offset));
        }
        if !self.has_root {
            return Err((Problem::NoElement, 0));
        }
        let Self { mut root, mut found, failed, .. } = self;
        let results = found.results.iter().chain([&root.result]);
        let counted: u64 = results.map(|result| u64::from(result.unsuccessful())).sum();
        // gotestsum declares a package that could not be built only in the root. Its tests did not run, so the
        // other results are incomplete.
        let more =
            root.declared.saturating_sub(counted + root.uncounted_failures).saturating_sub(root.excess);
        if more > 0 {
            if root.result.name.as_str().is_empty() {
                root.result.name = Text::new("tests that could not be run").unwrap_or_default();
            }
            let errors = bounded_errors(more);
            root.result.total += errors;
            root.result.errors += errors;
        }
        if root.result.total > 0 {
            round_duration(&mut root.result);
            add(&mut found.results, root.result);
        }
        Ok((found, failed))
    }
}

impl Suite {
    fn new(element: &BytesStart<'_>) -> Result<Self, Problem> {
        let mut suite = Self::default();
        for attribute in attributes(element) {
            let (key, value) = attribute?;
            match key {
                "name" => {
                    let name = shortened(&value.replace('\0', ""), MAX_NAME_CHARS);
                    suite.result.name = Text::new(name).unwrap_or_default();
                }
                "failures" | "errors" => {
                    suite.declared = suite.declared.saturating_add(value.trim().parse().unwrap_or(0));
                }
                "time" => suite.declared_duration = seconds(&value),
                "timestamp" => suite.result.timestamp = Timestamp::parse(value.trim()),
                _ => {}
            }
        }
        Ok(suite)
    }

    fn add_case(&mut self, case: Case) {
        let (result, uncounted_failures) = case.count();
        self.result.add(&result);
        self.uncounted_failures += uncounted_failures;
    }

    fn add_suite(&mut self, inner: &Self) {
        self.result.add(&inner.result);
        self.uncounted_failures += inner.uncounted_failures;
        self.excess = self.excess.saturating_add(inner.excess);
    }

    /// Compares the declared numbers with the counts. A suite without test cases that declares failures could not
    /// be run: each of them counts as an error.
    fn finish(&mut self, mismatches: &mut Vec<CountMismatch>) {
        let (declared, result) = (self.declared, &mut self.result);
        let counted = u64::from(result.unsuccessful());
        if declared > counted + self.uncounted_failures && mismatches.len() < MAX_MISMATCHES {
            mismatches.push(CountMismatch { suite: result.name.to_string(), declared, counted });
        }
        if result.total == 0 && declared > 0 {
            let errors = bounded_errors(declared);
            (result.total, result.errors) = (errors, errors);
        }
        let excess = declared.saturating_sub(u64::from(result.unsuccessful()) + self.uncounted_failures);
        self.excess = self.excess.max(excess);
        result.duration = result.duration.or(self.declared_duration);
        round_duration(result);
    }
}

/// Limits errors without a test case to 1,000, so that a declared number cannot distort the totals.
fn bounded_errors(declared: u64) -> u32 {
    u32::try_from(declared).unwrap_or(u32::MAX).min(1_000)
}

/// Rounds to microseconds: a sum of floating-point seconds has digits that were never measured.
fn round_duration(result: &mut JunitResult) {
    result.duration = result.duration.map(|seconds| (seconds * 1e6).round() / 1e6);
}
