//! The rules of docs/reference/junit.md, each with its examples.

mod attempts;
mod cases;
mod copies;
mod counting;
mod failed_tests;
mod files;
mod totals;

use std::fmt::Write;

use super::*;
use model::{JunitResult, Timestamp};

/// `name: total/failures/errors/skipped duration timestamp` of each result.
fn counted(xml: &str) -> String {
    let read = read(xml.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    read.results.into_iter().map(shown).collect()
}

fn shown(result: JunitResult) -> String {
    let JunitResult { name, failures, errors, skipped, total, duration, timestamp, .. } = result;
    let mut output = format!("{name}: {total}/{failures}/{errors}/{skipped}");
    for number in [duration, timestamp.map(Timestamp::seconds)] {
        write!(output, " {}", number.map_or("-".to_owned(), |number| number.to_string())).unwrap();
    }
    output + "\n"
}

/// `total/failures/errors/skipped` and the decisions.
fn decided(files: &[(&str, &str)]) -> (String, String) {
    let mut read = ResultFiles::default();
    for (path, xml) in files {
        read.add(Path::new(path), xml.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    }
    let Results { results, decisions } = read.results();
    let JunitResult { failures, errors, skipped, total, .. } = JunitResult::sum(&results);
    (format!("{total}/{failures}/{errors}/{skipped}"), decisions.to_string())
}

fn error_of(xml: impl AsRef<[u8]>) -> String {
    read(xml.as_ref()).unwrap_err().to_string()
}

/// Each row: the content of a suite with its attributes, `total/failures/errors/skipped`, and the decisions.
#[track_caller]
fn assert_decided(rows: &[(&str, &str, &str)]) {
    for (xml, counts, decisions) in rows {
        let (counted, decided) = decided(&[("r.xml", &format!("<testsuite{xml}</testsuite>"))]);
        assert_eq!((counted.as_str(), decided.as_str()), (*counts, *decisions), "{xml}");
    }
}
