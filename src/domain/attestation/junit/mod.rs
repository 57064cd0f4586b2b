//! From a file of JUnit XML to the results that an attestation holds.
//!
//! `attest junit` calls it with all bytes of a file. No standard says what JUnit XML is, and producers
//! differ; what all of them agree on is that a test is a `testcase`, and what happened to it its child. So
//! totals are counted from the test cases, wherever they stand, and what a suite says of itself is only
//! compared with them. Pure: nothing is fetched or expanded, and what cannot be read is an error with its
//! line and column.

mod case;
mod encoding;
mod error;
mod failed_tests;
#[cfg(test)]
mod tests;

pub use error::{NotJunit, Place, Problem};
pub use failed_tests::Wrong;

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use self::case::{Case, attribute, seconds};
use self::error::at;
use self::failed_tests::Kept;
use crate::domain::escape::shortened;
use crate::domain::model::{JunitResult, Text, Timestamp};

/// How deep elements may lie in each other.
const DEEPEST: usize = 256;

/// How much of a suite's name is kept, in characters.
const LONGEST_NAME: usize = 255;

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// One for each suite that lies in no other; those in it are counted with it ([`add`] bounds them).
    pub results: Vec<JunitResult>,
    /// Suites that say that more went wrong than their test cases show.
    pub doubts: Vec<Doubt>,
}

/// A suite whose own numbers have more failures and errors than its test cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Its name.
    pub suite: String,
    /// How many it says.
    pub said: u64,
    /// How many there are.
    pub counted: u64,
}

/// Reads a file.
///
/// # Errors
///
/// [`NotJunit`] where it is no XML, its root is none of JUnit's, or it is cut off.
pub fn read(bytes: &[u8]) -> Result<Results, NotJunit> {
    pass(bytes, Kept::default()).map(|(results, _)| results)
}

/// The tests of a file that went wrong, in its order, as many as `most`: those that [`read`] counts as failures and
/// errors and that have a test case.
///
/// # Errors
///
/// As [`read`].
pub fn wrong(bytes: &[u8], most: usize) -> Result<Vec<Wrong>, NotJunit> {
    pass(bytes, Kept::at_most(most)).map(|(_, wrong)| wrong)
}

/// Reads a file once.
fn pass(bytes: &[u8], kept: Kept) -> Result<(Results, Vec<Wrong>), NotJunit> {
    let text = encoding::decode(bytes)?;
    let (mut reader, mut count) = (Reader::from_str(&text), Count { kept, ..Count::default() });
    loop {
        let before = position(reader.buffer_position());
        let event = reader.read_event();
        let taken = match event {
            Ok(Event::Eof) => {
                let wrong = std::mem::take(&mut count.kept).wrong;
                let results = count.finish().map_err(|(problem, offset)| at(&text, offset, problem))?;
                return Ok((results, wrong));
            }
            Ok(event) => count.take(&event, before),
            Err(error) => {
                let place = position(reader.error_position());
                return Err(at(&text, place, error.into()));
            }
        };
        taken.map_err(|problem| at(&text, before, problem))?;
    }
}

/// How many results an attestation holds: a service that keeps each takes no more than it can show.
const MOST_RESULTS: usize = 2_000;

/// How many doubts are kept of a file.
const MOST_DOUBTS: usize = 100;

/// Adds a result. Beyond 2,000, the last is the sum of all others.
pub fn add(results: &mut Vec<JunitResult>, result: JunitResult) {
    let is_full = results.len() >= MOST_RESULTS;
    match results.last_mut() {
        Some(last) if is_full => {
            last.include(&result);
            last.name = Text::new("all other suites").unwrap_or_default();
        }
        _ => results.push(result),
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// What is open, and what was counted.
#[derive(Debug, Default)]
struct Count {
    open: Vec<Open>,
    has_root: bool,
    root: Suite,
    found: Results,
    kept: Kept,
}

/// An element that is open, and where it begins.
#[derive(Debug)]
struct Open {
    offset: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// `testsuites`, or what else holds suites.
    Holder,
    Suite(Suite),
    Case(Case),
    /// What a test case says of its failure.
    Failure,
    /// What else a test case holds, or what tests said: nothing in it counts.
    Detail,
}

/// A suite, and what was counted in it so far.
#[derive(Debug, Default)]
struct Suite {
    result: JunitResult,
    /// Failures and errors that it says of itself.
    said: u64,
    /// Failures in it that do not count.
    reruns: u64,
    /// Failures and errors that it, or what lies in it, says of itself beyond those that count.
    doubted: u64,
    /// Seconds that it says of itself.
    took: Option<f64>,
}

impl Count {
    fn take(&mut self, event: &Event<'_>, offset: usize) -> Result<(), Problem> {
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
                self.says(character.encode_utf8(&mut [0; 4]));
                Ok(())
            }
            Event::Text(text) if self.open.is_empty() && !text.trim().is_empty() => Err(Problem::NoElement),
            Event::CData(_) if self.open.is_empty() => Err(Problem::NoElement),
            Event::Text(text) => {
                self.says(text);
                Ok(())
            }
            Event::CData(text) => {
                self.says(text);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Keeps what a test case says of its failure.
    fn says(&mut self, text: &str) {
        if let [.., Open { kind: Kind::Case(case), .. }, Open { kind: Kind::Failure, .. }]
        | [.., Open { kind: Kind::Case(case), .. }] = self.open.as_mut_slice()
            && self.kept.wants_more()
        {
            case.says(text);
        }
    }

    fn start(&mut self, element: &BytesStart<'_>, offset: usize) -> Result<(), Problem> {
        let local = element.local_name();
        let name = local.as_ref();
        if self.open.len() >= DEEPEST {
            return Err(Problem::Deep(DEEPEST));
        }
        let keeps = self.kept.wants_more();
        let inner = match self.open.last_mut() {
            None if self.has_root => return Err(Problem::SecondRoot),
            None if !matches!(name, "testsuites" | "testsuite") => {
                return Err(Problem::Root(name.to_owned()));
            }
            Some(Open { kind: Kind::Detail | Kind::Failure, .. }) => Kind::Detail,
            Some(Open { kind: Kind::Case(case), .. }) if !matches!(name, "testcase" | "testsuite") => {
                case.holds(element, keeps)?;
                if matches!(name, "failure" | "error") { Kind::Failure } else { Kind::Detail }
            }
            None | Some(_) => match name {
                "testsuite" => Kind::Suite(Suite::of(element)?),
                "testcase" => Kind::Case(Case::of(element, keeps)?),
                // What the tests of a suite said counts for nothing, whatever it looks like.
                "system-out" | "system-err" | "properties" => Kind::Detail,
                // Of a suite that could not be run at all.
                "failure" | "error" => {
                    let mut case = Case::default();
                    case.holds(element, keeps)?;
                    Kind::Case(case)
                }
                _ => {
                    if self.open.is_empty() {
                        self.root = Suite::of(element)?;
                    }
                    Kind::Holder
                }
            },
        };
        self.has_root = true;
        self.open.push(Open { offset, kind: inner });
        Ok(())
    }

    /// Counts what has come to its end with what it lies in.
    fn end(&mut self) {
        let ended = self.open.pop().map(|open| open.kind);
        let outer = self.open.iter_mut().rev().find_map(|open| match &mut open.kind {
            Kind::Suite(suite) => Some(suite),
            _ => None,
        });
        match (ended, outer) {
            // Some producers have test cases outside of any suite.
            (Some(Kind::Case(case)), suite) => {
                let suite = suite.unwrap_or(&mut self.root);
                suite.take(self.kept.looked_at(case, suite.result.name.as_str()));
            }
            (Some(Kind::Suite(mut suite)), Some(outer)) => {
                suite.finish(&mut self.found.doubts);
                outer.include(&suite);
            }
            (Some(Kind::Suite(mut suite)), None) => {
                suite.finish(&mut self.found.doubts);
                self.root.reruns += suite.reruns;
                self.root.doubted = self.root.doubted.saturating_add(suite.doubted);
                add(&mut self.found.results, suite.result);
            }
            _ => {}
        }
    }

    /// What was counted, or what is still open and where it begins.
    fn finish(self) -> Result<Results, (Problem, usize)> {
        if let Some(Open { offset, .. }) = self.open.last() {
            return Err((Problem::Open, *offset));
        }
        if !self.has_root {
            return Err((Problem::NoElement, 0));
        }
        let Self { mut root, mut found, .. } = self;
        let results = found.results.iter().chain([&root.result]);
        let counted: u64 = results.map(|result| u64::from(result.wrong())).sum();
        // A package that could not be built is in gotestsum's root and nowhere else. Nothing of it was tested,
        // so that what else passed is not all.
        let more = root.said.saturating_sub(counted + root.reruns).saturating_sub(root.doubted);
        if more > 0 {
            if root.result.name.as_str().is_empty() {
                root.result.name = Text::new("what could not be run").unwrap_or_default();
            }
            let errors = believed(more);
            root.result.total += errors;
            root.result.errors += errors;
        }
        if root.result.total > 0 {
            round(&mut root.result);
            add(&mut found.results, root.result);
        }
        Ok(found)
    }
}

impl Suite {
    fn of(element: &BytesStart<'_>) -> Result<Self, Problem> {
        let mut suite = Self::default();
        for attribute in attributes(element) {
            let (key, value) = attribute?;
            match key {
                "name" => {
                    let name = shortened(&value.replace('\0', ""), LONGEST_NAME);
                    suite.result.name = Text::new(name).unwrap_or_default();
                }
                "failures" | "errors" => {
                    suite.said = suite.said.saturating_add(value.trim().parse().unwrap_or(0));
                }
                "time" => suite.took = seconds(&value),
                "timestamp" => suite.result.timestamp = Timestamp::parse(value.trim()),
                _ => {}
            }
        }
        Ok(suite)
    }

    fn take(&mut self, case: Case) {
        let (result, reruns) = case.count();
        self.result.include(&result);
        self.reruns += reruns;
    }

    fn include(&mut self, inner: &Self) {
        self.result.include(&inner.result);
        self.reruns += inner.reruns;
        self.doubted = self.doubted.saturating_add(inner.doubted);
    }

    /// Compares what it says of itself with what was counted. Without a test case, a suite that says that
    /// something went wrong is one that could not be run: each such thing counts as an error.
    fn finish(&mut self, doubts: &mut Vec<Doubt>) {
        let (said, result) = (self.said, &mut self.result);
        let counted = u64::from(result.wrong());
        if said > counted + self.reruns && doubts.len() < MOST_DOUBTS {
            doubts.push(Doubt { suite: result.name.to_string(), said, counted });
        }
        if result.total == 0 && said > 0 {
            let errors = believed(said);
            (result.total, result.errors) = (errors, errors);
        }
        let beyond = said.saturating_sub(u64::from(result.wrong()) + self.reruns);
        self.doubted = self.doubted.max(beyond);
        result.duration = result.duration.or(self.took);
        round(result);
    }
}

/// How many errors without a test case are believed, so that sums stay numbers of tests.
fn believed(said: u64) -> u32 {
    u32::try_from(said).unwrap_or(u32::MAX).min(1_000)
}

/// A sum of seconds has digits that nobody measured.
fn round(result: &mut JunitResult) {
    result.duration = result.duration.map(|seconds| (seconds * 1e6).round() / 1e6);
}

/// The attributes of an element, by local name. One that is there twice is given twice.
fn attributes<'a>(
    element: &'a BytesStart<'_>,
) -> impl Iterator<Item = Result<(&'a str, Cow<'a, str>), Problem>> {
    let mut attributes = element.attributes();
    // Which would compare each with each.
    attributes.with_checks(false);
    attributes.map(attribute)
}
