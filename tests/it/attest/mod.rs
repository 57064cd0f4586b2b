//! `attest junit`: what is read, what is found out, and what is sent.

mod facts;
mod files;
mod samples;
mod sent;

use crate::program::{Program, supercargo};

/// `supercargo attest junit` with what it needs, and more.
fn attest(more: &str) -> Program {
    let program = supercargo().args(["attest", "junit", "--flow", "cart", "--trail", "build-1"]);
    program.args(["--name", "unit-tests"]).args(more.split(' ').filter(|word| !word.is_empty()))
}

/// What a table of particulars says under a name.
fn said<'a>(table: &'a str, name: &str) -> &'a str {
    let line = table.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {table}")).strip_prefix(name).unwrap().trim()
}

const PASSING: &str = "<testsuite name=\"s\"><testcase time=\"0.5\"/></testsuite>";
const FAILING: &str = "<testsuite name=\"f\"><testcase/><testcase><failure/></testcase></testsuite>";
