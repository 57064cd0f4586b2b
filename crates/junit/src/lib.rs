//! Reads test results in JUnit XML.
//!
//! No standard defines JUnit XML, and producers differ. They agree that a test is a `testcase` and that its children are
//! its outcome. Files are read into flat records (`parse`, `case`), and the rules of docs/reference/junit.md decide what counts
//! (`decide`). Pure: fetches and expands nothing, and reports a problem with its line and column.

#![warn(missing_docs)]

mod attempts;
mod attributes;
mod case;
mod copies;
mod decide;
mod decisions;
mod encoding;
mod error;
mod failed_tests;
mod parse;
mod records;
mod results;
mod suite;
#[cfg(test)]
mod tests;
mod totals;

pub use decisions::{Decisions, Doubt};
pub use encoding::may_have_suites;
pub use error::{JunitError, Problem, TextPosition};
pub use failed_tests::FailedTest;

use std::path::Path;

use self::parse::{Wanted, parse};
use self::records::Records;
use model::JunitResult;

/// Files with the test results of one attestation.
#[derive(Debug, Default)]
pub struct ResultFiles {
    records: Records,
}

/// What the files contain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// One for each outermost suite, which includes the suites inside it; at most 2,000.
    pub results: Vec<JunitResult>,
    /// What was decided to get them.
    pub decisions: Decisions,
}

impl ResultFiles {
    /// Reads a file. Its path names suites without a name, and its folder may show that another file reports another
    /// run.
    ///
    /// # Errors
    ///
    /// [`JunitError`] if the file is not XML, has another root element, or is truncated. Nothing of it counts then.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), JunitError> {
        self.read(path, bytes, &mut Wanted::default())
    }

    /// Decides what counts.
    #[must_use]
    pub fn results(mut self) -> Results {
        let (results, decisions) = decide::decide(&mut self.records);
        Results { results, decisions }
    }

    /// Decides what counts, to find the failed tests in a second reading of the same files.
    #[must_use]
    pub fn failed_tests(mut self, limit: usize) -> FailedTestFiles {
        decide::decide(&mut self.records);
        let cases = self.records.cases.iter().enumerate();
        let failed =
            cases.filter(|(_, case)| case.counts() && case.is_unsuccessful()).map(|(number, _)| number);
        let wanted = Wanted { cases: failed.take(limit).collect(), found: Vec::new() };
        FailedTestFiles { files: Self::default(), wanted }
    }

    fn read(&mut self, path: &Path, bytes: &[u8], wanted: &mut Wanted) -> Result<(), JunitError> {
        let mark = self.records.mark();
        let file = self.records.add_file(path, bytes);
        parse(bytes, file, &mut self.records, wanted).inspect_err(|_| self.records.truncate(mark))
    }
}

/// The second reading of files, which describes the failed tests that count.
#[derive(Debug)]
pub struct FailedTestFiles {
    files: ResultFiles,
    wanted: Wanted,
}

impl FailedTestFiles {
    /// Reads a file again, in the same order. A file that cannot be read is skipped, as in the first reading.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) {
        let found = self.wanted.found.len();
        if self.files.read(path, bytes, &mut self.wanted).is_err() {
            self.wanted.found.truncate(found);
        }
    }

    /// The failed tests in the order of the files: the failures and errors that count and that have a test case.
    #[must_use]
    pub fn found(self) -> Vec<FailedTest> {
        self.wanted.found
    }
}

/// Reads the only file of an attestation.
///
/// # Errors
///
/// As [`ResultFiles::add`].
pub fn read(bytes: &[u8]) -> Result<Results, JunitError> {
    let mut files = ResultFiles::default();
    files.add(Path::new(""), bytes)?;
    Ok(files.results())
}

/// The failed tests of the only file of an attestation, up to `limit`.
///
/// # Errors
///
/// As [`read`].
pub fn failed_tests(bytes: &[u8], limit: usize) -> Result<Vec<FailedTest>, JunitError> {
    let mut files = ResultFiles::default();
    files.add(Path::new(""), bytes)?;
    let mut again = files.failed_tests(limit);
    again.add(Path::new(""), bytes);
    Ok(again.found())
}
