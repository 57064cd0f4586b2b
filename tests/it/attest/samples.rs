//! What real test runners wrote (`tests/fixtures/junit`, where each folder's `origin.md` tells how), beside
//! what they printed themselves.

use super::{attest, said};
use crate::fake::{Reply, Server};

/// The file or folder; what is counted; what the runner printed of it.
const SAMPLES: [(&str, &str, &str); 24] = [
    (
        "surefire/cart",
        "9 tests: 5 passed, 1 failed, 2 with an error, 1 skipped",
        "Tests run: 9, Failures: 1, Errors: 2, Skipped: 1",
    ),
    // Its file has 5 failures and errors of 8 tests: it counts every try.
    (
        "surefire/checkout",
        "5 tests: 2 passed, 1 failed, 1 with an error, 1 skipped",
        "Tests run: 5, Failures: 1, Errors: 1, Skipped: 1, Flakes: 1",
    ),
    ("surefire/slow", "2 tests: 2 passed", "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0"),
    ("gradle", "8 tests: 4 passed, 3 failed, 1 skipped", "8 tests completed, 3 failed, 1 skipped"),
    // A test that failed, and then could not be taken down, is two of its test cases.
    (
        "pytest/report.xml",
        "15 tests: 6 passed, 3 failed, 3 with an error, 3 skipped",
        "3 failed, 7 passed, 2 skipped, 1 xfailed, 3 errors",
    ),
    ("pytest/report-collection.xml", "2 tests: 1 passed, 1 with an error", "1 passed, 1 error"),
    // One that is still to be written is a test case like one that passed.
    (
        "jest/junit.xml",
        "10 tests: 7 passed, 2 failed, 1 skipped",
        "2 failed, 1 skipped, 1 todo, 6 passed, 10 total",
    ),
    // The file that could not be loaded is two test cases.
    (
        "jest/junit-suite-error.xml",
        "12 tests: 7 passed, 3 failed, 1 with an error, 1 skipped",
        "2 failed, 1 skipped, 1 todo, 6 passed, 10 total",
    ),
    // The package that could not be built is in its root alone.
    (
        "gotestsum/report.xml",
        "10 tests: 4 passed, 4 failed, 1 with an error, 1 skipped",
        "DONE 9 tests, 1 skipped, 4 failures, 1 error",
    ),
    ("gotestsum/report-rerun.xml", "5 tests: 2 passed, 3 failed", "DONE 2 runs, 5 tests, 3 failures"),
    // What was skipped is not in its file, unless it is asked for.
    (
        "nextest/junit.xml",
        "8 tests: 4 passed, 4 failed",
        "8 tests run: 4 passed (1 flaky), 3 failed, 1 timed out, 1 skipped",
    ),
    ("nextest/junit-skipped.xml", "9 tests: 2 passed, 7 skipped", "2 tests run: 2 passed, 7 skipped"),
    // A risky test is an error in its file, an incomplete one skipped.
    (
        "phpunit",
        "14 tests: 6 passed, 1 failed, 4 with an error, 3 skipped",
        "Tests: 14, Assertions: 7, Errors: 3, Failures: 1, Skipped: 2, Incomplete: 1, Risky: 1",
    ),
    ("rspec", "11 tests: 3 passed, 5 failed, 3 skipped", "11 examples, 5 failures, 3 pending"),
    ("playwright/results.xml", "12 tests: 5 passed, 1 failed, 3 with an error, 3 skipped", "4 failed"),
    ("playwright/results-retries.xml", "2 tests: 1 passed, 1 with an error", "1 failed"),
    ("trx/cart-plain-junit.xml", "8 tests: 4 passed, 2 failed, 2 skipped", ""),
    // A file that cannot be loaded is a test case.
    ("vitest", "9 tests: 4 passed, 3 failed, 2 skipped", "2 failed | 4 passed | 1 skipped | 1 todo (8)"),
    // What is pending is not in its file.
    ("mocha", "7 tests: 4 passed, 3 failed", "4 passing"),
    // A test with tests in it is a suite.
    ("node-test", "8 tests: 4 passed, 2 failed, 2 skipped", "tests 9"),
    // What is disabled is no test to it, and the skipped one passed.
    ("ctest", "8 tests: 2 passed, 3 failed, 1 with an error, 2 skipped", "4 tests failed out of 7"),
    ("bats", "7 tests: 2 passed, 3 failed, 2 skipped", "8 tests, 3 failures, 2 skipped, 1 not run"),
    (
        "behave",
        "6 tests: 2 passed, 1 failed, 2 with an error, 1 skipped",
        "2 scenarios passed, 1 failed, 2 error, 1 skipped",
    ),
    ("robot", "5 tests: 2 passed, 2 failed, 1 skipped", "5 tests, 2 passed, 2 failed, 1 skipped"),
];

fn fixture(path: &str) -> String {
    format!("{}/tests/fixtures/junit/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_totals_are_those_of_the_test_cases() {
    for (sample, counted, printed) in SAMPLES {
        let outcome = attest("--dry-run").args([fixture(sample).as_str()]).run();
        assert_eq!(said(&outcome.says(0, &[]).stdout, "tests"), counted, "{sample}");
        let producer = sample.split('/').next().unwrap();
        let all = std::fs::read_to_string(fixture(&format!("{producer}/printed.txt"))).unwrap();
        assert!(all.contains(printed), "{producer} did not print {printed}");
    }
}

#[test]
fn a_package_that_could_not_be_built_is_an_error_in_what_is_attested() {
    // Without the tests that failed, only that is left.
    let text = std::fs::read_to_string(fixture("gotestsum/report.xml")).unwrap();
    let failure = regex::Regex::new(r"(?s)<failure .*?</failure>").unwrap();
    let text = failure.replace_all(&text, "").replace("failures=\"4\"", "").replace("failures=\"3\"", "");
    let text = text.replace("failures=\"1\"", "");
    let server = Server::start(|_| Reply::json(201, ""));
    let outcome = attest("--fail-on-failures r.xml").file("r.xml", &text).service(&server).run();
    outcome.says(9, &["the tests do not pass: 10 tests: 8 passed, 1 with an error, 1 skipped"]);
    let [seen] = server.seen().try_into().unwrap();
    let sent = String::from_utf8_lossy(&seen.body).into_owned();
    assert!(sent.contains(r#""name":"what could not be run""#) && sent.contains(r#""errors":1"#), "{sent}");
}

#[test]
fn what_a_converter_breaks_is_refused_with_its_place() {
    let outcome = attest("--dry-run").args([fixture("trx/cart-junit.xml").as_str()]).run();
    outcome.says(
        2,
        &["trx/cart-junit.xml\" is no JUnit XML", "line 15, column 9: a bare &; &amp; was expected"],
    );
    let outcome = attest("--dry-run").args([fixture("trx/cart.trx").as_str()]).run();
    outcome.says(2, &["the root is <TestRun>, which is a .NET .trx file"]);
}
