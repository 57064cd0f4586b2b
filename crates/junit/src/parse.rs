//! Reads the XML of a file into records.

use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::attributes::character;
use super::case::{Case, PerKind};
use super::encoding;
use super::error::{JunitError, Problem, position};
use super::failed_tests::FailedTest;
use super::records::{Records, SuiteId, SuiteRecord, at};
use super::suite::Suite;

/// Limit for nested elements.
const MAX_DEPTH: usize = 256;

/// The failed tests to describe, by the index of their test case in the records.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) cases: BTreeSet<usize>,
    pub(super) found: Vec<FailedTest>,
}

/// Reads a file into the records of file number `file`. After an error, they contain a part of it.
pub(super) fn parse(
    bytes: &[u8],
    file: u32,
    records: &mut Records,
    wanted: &mut Wanted,
) -> Result<(), JunitError> {
    let failed = |problem, position| JunitError {
        position,
        problem,
        may_have_suites: encoding::may_have_suites(bytes),
    };
    let text = encoding::decode(bytes).map_err(|problem| failed(problem, None))?;
    let failed_at = |(problem, offset)| failed(problem, Some(position(&text, offset)));
    let mut reader = Reader::from_str(&text);
    let root = add_suite(records, file, &Suite::default(), None, None);
    let mut parser = Parser { file, root, records, wanted, open: Vec::new(), has_root: false };
    loop {
        let before = offset(reader.buffer_position());
        match reader.read_event() {
            Ok(Event::Eof) => return parser.finish().map_err(failed_at),
            Ok(event) => parser.apply(&event, before).map_err(|problem| failed_at((problem, before)))?,
            Err(error) => return Err(failed_at((error.into(), offset(reader.error_position())))),
        }
    }
}

fn offset(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

fn add_suite(
    records: &mut Records,
    file: u32,
    suite: &Suite,
    parent: Option<SuiteId>,
    result: Option<u32>,
) -> SuiteId {
    let (key, first) = (records.hash(&suite.name, ""), records.cases.len());
    let host = suite.host.as_deref().map(|host| records.hash("", host));
    records.suites.push(SuiteRecord {
        file,
        parent,
        result,
        key,
        cases: first..first,
        declared: suite.declared,
        uncounted: PerKind::default(),
        start: suite.start,
        host,
    })
}

struct Parser<'a> {
    file: u32,
    /// Stands for the root element, with the test cases outside of any suite.
    root: SuiteId,
    records: &'a mut Records,
    wanted: &'a mut Wanted,
    open: Vec<OpenElement>,
    has_root: bool,
}

#[derive(Debug)]
struct OpenElement {
    /// Where the element starts, in bytes.
    offset: usize,
    kind: ElementKind,
}

#[derive(Debug)]
enum ElementKind {
    /// `testsuites`.
    Container,
    /// An element that is not known, with its name and the number of test cases and suites before it. It may contain suites.
    Unknown(String, usize),
    /// A suite with its name.
    Suite(SuiteId, String),
    Case(Box<Case>),
    /// `failure` or `error` of a test case.
    Failure,
    /// Output, properties and other children of a test case. Their content does not count.
    Ignored,
}

impl Parser<'_> {
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
                    name => match name.strip_prefix('#') {
                        Some(number) => character(number).unwrap_or(char::REPLACEMENT_CHARACTER),
                        None => return Err(Problem::Entity(name.to_owned())),
                    },
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
                "testsuite" => self.start_suite(Suite::new(element)?),
                "testcase" => ElementKind::Case(Box::new(Case::new(element)?)),
                "system-out" | "system-err" | "properties" | "skipped" => ElementKind::Ignored,
                // The suite itself could not be run.
                "failure" | "error" => ElementKind::Case(Box::new(Case::of_suite(element)?)),
                _ => {
                    if self.open.is_empty() {
                        self.declare_root(&Suite::new(element)?);
                    }
                    if name == "testsuites" {
                        ElementKind::Container
                    } else {
                        ElementKind::Unknown(name.to_owned(), self.parts())
                    }
                }
            },
        };
        self.has_root = true;
        self.open.push(OpenElement { offset, kind });
        Ok(())
    }

    fn start_suite(&mut self, suite: Suite) -> ElementKind {
        let outer = innermost_suite(&self.open).map_or(self.root, |(suite, _)| suite);
        let result =
            self.records.suites[outer].result.unwrap_or_else(|| self.records.add_result(suite.result()));
        if let Some(result) = self.records.results.get_mut(at(result)) {
            result.timestamp = [result.timestamp, suite.timestamp].into_iter().flatten().min();
        }
        let added = add_suite(self.records, self.file, &suite, Some(outer), Some(result));
        self.add_unclear_totals(&suite, added);
        ElementKind::Suite(added, suite.name)
    }

    fn add_unclear_totals(&mut self, suite: &Suite, id: SuiteId) {
        for (attribute, value) in &suite.unclear {
            let case = Case::of_total(attribute, value);
            if self.wanted.cases.contains(&self.records.cases.len()) {
                self.wanted.found.push(case.failed_test(&suite.name));
            }
            let key = self.records.case_key(&case, &suite.name);
            self.records.add_case(&case, id, key);
        }
    }

    fn declare_root(&mut self, suite: &Suite) {
        let key = self.records.hash(&suite.name, "");
        let root = &mut self.records.suites[self.root];
        (root.declared, root.start, root.key) = (suite.declared, suite.start, key);
        if let Some(file) = self.records.files.get_mut(at(self.file)) {
            file.root = suite.result();
        }
        self.add_unclear_totals(suite, self.root);
    }

    fn end(&mut self) {
        match self.open.pop().map(|open| open.kind) {
            Some(ElementKind::Case(case)) => self.end_case(&case),
            Some(ElementKind::Unknown(name, before)) if self.parts() == before => {
                self.end_case(&Case::of_child(&name));
            }
            Some(ElementKind::Suite(suite, _)) => self.end_suite(suite),
            _ => {}
        }
    }

    fn end_case(&mut self, case: &Case) {
        let root =
            (self.root, self.records.files.get(at(self.file)).map_or("", |file| file.root.name.as_str()));
        let (suite, name) = innermost_suite(&self.open).unwrap_or(root);
        if self.wanted.cases.contains(&self.records.cases.len()) {
            self.wanted.found.push(case.failed_test(name));
        }
        let key = self.records.case_key(case, name);
        self.records.add_case(case, suite, key);
        let sum = &mut self.records.suites[suite].uncounted;
        *sum = sum.plus(case.uncounted());
    }

    fn parts(&self) -> usize {
        self.records.cases.len() + self.records.suites.len()
    }

    fn end_suite(&mut self, suite: SuiteId) {
        self.records.suites[suite].cases.end = self.records.cases.len();
    }

    fn finish(mut self) -> Result<(), (Problem, usize)> {
        if let Some(OpenElement { offset, .. }) = self.open.last() {
            return Err((Problem::Open, *offset));
        }
        if !self.has_root {
            return Err((Problem::NoElement, 0));
        }
        self.end_suite(self.root);
        Ok(())
    }
}

fn innermost_suite(open: &[OpenElement]) -> Option<(SuiteId, &str)> {
    open.iter().rev().find_map(|open| match &open.kind {
        ElementKind::Suite(suite, name) => Some((*suite, name.as_str())),
        _ => None,
    })
}
