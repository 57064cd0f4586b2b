//! What makes a file no JUnit XML, and where.

use std::fmt;

use quick_xml::Error;
use quick_xml::errors::IllFormedError;
use quick_xml::escape::EscapeError;

use crate::domain::escape::{Visible, shortened};

/// A file that cannot be read as JUnit XML.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", place.map(|place| format!("{place}: ")).unwrap_or_default())]
pub struct NotJunit {
    /// Where, unless it is all of it.
    pub place: Option<Place>,
    /// What is wrong there.
    pub problem: Problem,
}

/// A place in a text, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is nothing.
    #[error("it is empty; JUnit XML was expected")]
    Empty,
    /// Bytes that are no text.
    #[error("this is not {0}, in which the file is written")]
    Encoding(&'static str),
    /// An encoding that nobody knows.
    #[error("the encoding \"{}\" is not known", said(.0))]
    UnknownEncoding(String),
    /// Text outside of elements, or no element at all.
    #[error("<testsuites> or <testsuite> was expected")]
    NoElement,
    /// A root that is none of JUnit's.
    #[error("the root is <{}>{}; <testsuites> or <testsuite> was expected", said(.0), another_format(.0))]
    Root(String),
    /// A second root.
    #[error("a second root element; one was expected")]
    SecondRoot,
    /// No XML.
    #[error("no XML: {}", said(&.0.to_string()))]
    Syntax(Error),
    /// It ends inside an element.
    #[error("the file ends inside of the element that begins here")]
    Open,
    /// An entity of the document's own.
    #[error("&{}; is an entity of the file's own; none is expanded", said(.0))]
    Entity(String),
    /// An `&` that begins no entity.
    #[error("a bare &; &amp; was expected")]
    Ampersand,
    /// Elements in elements in elements.
    #[error("elements nest deeper than {0} levels")]
    Deep(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl From<quick_xml::Error> for Problem {
    fn from(error: quick_xml::Error) -> Self {
        match error {
            Error::Escape(EscapeError::UnrecognizedEntity(_, name)) => Self::Entity(name),
            Error::Escape(EscapeError::UnterminatedEntity(_))
            | Error::IllFormed(IllFormedError::UnclosedReference) => Self::Ampersand,
            error => Self::Syntax(error),
        }
    }
}

impl From<Problem> for NotJunit {
    fn from(problem: Problem) -> Self {
        Self { place: None, problem }
    }
}

/// A problem at a byte of a text.
pub(crate) fn at(text: &str, offset: usize, problem: Problem) -> NotJunit {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or_default();
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    let place = Place { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 };
    NotJunit { place: Some(place), problem }
}

fn said(text: &str) -> String {
    Visible(&shortened(text, 100)).to_string()
}

/// What else a test runner writes, by its root.
fn another_format(root: &str) -> &'static str {
    match root {
        "TestRun" => ", which is a .NET .trx file",
        "test-run" => ", which is NUnit's own format",
        "assemblies" => ", which is xUnit.net's own format",
        "testng-results" => ", which is TestNG's own format",
        "robot" => ", which is Robot Framework's own format",
        "coverage" => ", which is a report of coverage",
        "html" => ", which is a web page",
        _ => "",
    }
}
