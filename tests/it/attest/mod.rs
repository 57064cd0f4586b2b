//! `attest junit`: result files, provenance, and requests.

mod facts;
mod files;
mod image;
mod samples;
mod submission;

use crate::program::{Program, supercargo};

/// `supercargo attest junit` with required options and more arguments.
fn attest(more: &str) -> Program {
    let program = supercargo().args(["attest", "junit", "--flow", "cart", "--trail", "build-1"]);
    program.args(["--name", "unit-tests"]).args(more.split(' ').filter(|word| !word.is_empty()))
}

/// The value of a name in a table.
fn particular<'a>(table: &'a str, name: &str) -> &'a str {
    let line = table.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {table}")).strip_prefix(name).unwrap().trim()
}

const PASSING: &str = "<testsuite name=\"s\"><testcase name=\"a\" time=\"0.5\"/></testsuite>";
const FAILING: &str =
    "<testsuite name=\"f\"><testcase name=\"a\"/><testcase name=\"b\"><failure/></testcase></testsuite>";
