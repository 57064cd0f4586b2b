//! Errors of reading JUnit XML, with their position.

use std::fmt;

use quick_xml::Error;
use quick_xml::errors::IllFormedError;
use quick_xml::escape::EscapeError;

use model::escape::{Escaped, shortened};

/// A file that cannot be read as JUnit XML.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", position.map(|position| format!("{position}: ")).unwrap_or_default())]
pub struct JunitError {
    /// The position of the problem; `None` for the whole file.
    pub position: Option<TextPosition>,
    /// The problem.
    pub problem: Problem,
    /// Whether the root element is a suite, so that tests are missing if the file does not count.
    pub may_have_suites: bool,
}

/// Line and column in a text, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file is empty.
    #[error("expected JUnit XML, got an empty file")]
    Empty,
    /// Bytes that are invalid in the file's encoding.
    #[error("invalid {0}, the encoding of the file")]
    Encoding(&'static str),
    /// The declared encoding is unknown.
    #[error("unknown encoding \"{}\"", excerpt(.0))]
    UnknownEncoding(String),
    /// Text outside of elements, or no element at all.
    #[error("expected <testsuites> or <testsuite>")]
    NoElement,
    /// The root element is not one of JUnit's.
    #[error("expected the root <testsuites> or <testsuite>, got <{}>{}", excerpt(.0), other_format(.0))]
    Root(String),
    /// There is a second root element.
    #[error("expected one root element, got a second one")]
    SecondRoot,
    /// Invalid XML.
    #[error("invalid XML: {}", excerpt(&.0.to_string()))]
    Syntax(Error),
    /// The file ends inside an element.
    #[error("the file ends inside the element that starts here")]
    Open,
    /// An entity that the file declares.
    #[error("unsupported entity &{};: only predefined entities are expanded", excerpt(.0))]
    Entity(String),
    /// An `&` that starts no entity.
    #[error("expected &amp;, got a bare &")]
    Ampersand,
    /// Too many nested elements.
    #[error("elements are nested deeper than {0} levels")]
    Deep(usize),
}

impl fmt::Display for TextPosition {
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

/// The position of a byte offset in a text.
pub(super) fn position(text: &str, offset: usize) -> TextPosition {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or_default();
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    TextPosition { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
}

fn excerpt(text: &str) -> String {
    Escaped(&shortened(text, 100)).to_string()
}

/// The test report format with this root element.
fn other_format(root: &str) -> &'static str {
    match root {
        "TestRun" => " (a .NET .trx file)",
        "test-run" => " (NUnit's own format)",
        "assemblies" => " (xUnit.net's own format)",
        "testng-results" => " (TestNG's own format)",
        "robot" => " (Robot Framework's own format)",
        "coverage" => " (a coverage report)",
        "html" => " (a web page)",
        _ => "",
    }
}
