//! Files of real test runners, compared with the totals that the runners printed. See `origin.md` in each folder of
//! `tests/fixtures/junit`.

use crate::attest::{attest, particular};
use crate::fake::{Reply, Server};

/// File or folder, expected totals, and output of the runner.
const SAMPLES: [(&str, &str, &str); 36] = [
    (
        "surefire/cart",
        "9 tests: 5 passed, 1 failed, 2 with an error, 1 skipped",
        "Tests run: 9, Failures: 1, Errors: 2, Skipped: 1",
    ),
    // The file has 5 failures and errors in 8 tests, since it counts every attempt.
    (
        "surefire/checkout",
        "5 tests: 2 passed, 1 failed, 1 with an error, 1 skipped",
        "Tests run: 5, Failures: 1, Errors: 1, Skipped: 1, Flakes: 1",
    ),
    ("surefire/slow", "2 tests: 2 passed", "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0"),
    ("gradle", "8 tests: 4 passed, 3 failed, 1 skipped", "8 tests completed, 3 failed, 1 skipped"),
    // A test that failed, and then failed in teardown, has two test cases.
    (
        "pytest/report.xml",
        "15 tests: 6 passed, 3 failed, 3 with an error, 3 skipped",
        "3 failed, 7 passed, 2 skipped, 1 xfailed, 3 errors",
    ),
    ("pytest/report-collection.xml", "2 tests: 1 passed, 1 with an error", "1 passed, 1 error"),
    // A `todo` test has the same test case as one that passed.
    (
        "jest/junit.xml",
        "10 tests: 7 passed, 2 failed, 1 skipped",
        "2 failed, 1 skipped, 1 todo, 6 passed, 10 total",
    ),
    // A file that could not be loaded has two test cases.
    (
        "jest/junit-suite-error.xml",
        "12 tests: 7 passed, 3 failed, 1 with an error, 1 skipped",
        "2 failed, 1 skipped, 1 todo, 6 passed, 10 total",
    ),
    // A package that could not be built is only in the root element.
    (
        "gotestsum/report.xml",
        "10 tests: 4 passed, 4 failed, 1 with an error, 1 skipped",
        "DONE 9 tests, 1 skipped, 4 failures, 1 error",
    ),
    ("gotestsum/report-rerun.xml", "5 tests: 2 passed, 3 failed", "DONE 2 runs, 5 tests, 3 failures"),
    // Skipped tests are omitted by default.
    (
        "nextest/junit.xml",
        "8 tests: 4 passed, 4 failed",
        "8 tests run: 4 passed (1 flaky), 3 failed, 1 timed out, 1 skipped",
    ),
    ("nextest/junit-skipped.xml", "9 tests: 2 passed, 7 skipped", "2 tests run: 2 passed, 7 skipped"),
    // A risky test is an error, and an incomplete one is skipped.
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
    // Pending tests are omitted.
    ("mocha", "7 tests: 4 passed, 3 failed", "4 passing"),
    // A test with subtests is a suite.
    ("node-test", "8 tests: 4 passed, 2 failed, 2 skipped", "tests 9"),
    // The runner does not count disabled tests, and counts the skipped one as passed.
    ("ctest", "8 tests: 2 passed, 3 failed, 1 with an error, 2 skipped", "4 tests failed out of 7"),
    ("bats", "7 tests: 2 passed, 3 failed, 2 skipped", "8 tests, 3 failures, 2 skipped, 1 not run"),
    (
        "behave",
        "6 tests: 2 passed, 1 failed, 2 with an error, 1 skipped",
        "2 scenarios passed, 1 failed, 2 error, 1 skipped",
    ),
    ("robot", "5 tests: 2 passed, 2 failed, 1 skipped", "5 tests, 2 passed, 2 failed, 1 skipped"),
    // Each try is a test case.
    (
        "pytest-rerunfailures/report.xml",
        "4 tests: 2 passed, 1 failed, 1 skipped",
        "1 failed, 2 passed, 1 skipped, 4 rerun",
    ),
    // The test that was interrupted is a test case without a name.
    ("pytest-rerunfailures/report-interrupted.xml", "2 tests: 1 passed, 1 with an error", "1 passed in"),
    // The file counts assertions, and each section is a test case.
    (
        "catch2/junit.xml",
        "7 tests: 2 passed, 2 failed, 1 with an error, 2 skipped",
        "test cases: 6 | 1 passed | 3 failed | 2 failed as expected",
    ),
    (
        "catch2/junit-may-fail.xml",
        "2 tests: 1 passed, 1 skipped",
        "test cases: 2 | 1 passed | 1 failed as expected",
    ),
    ("karma", "6 tests: 1 passed, 2 failed, 3 skipped", "Executed 3 of 6 (2 FAILED) (skipped 3)"),
    ("newman/cart.xml", "3 tests: 2 passed, 1 failed", "assertions"),
    // The suite declares the error of the script.
    ("newman/broken.xml", "3 tests: 2 passed, 1 with an error", "Error in test-script"),
    (
        "ant",
        "5 tests: 2 passed, 1 failed, 1 with an error, 1 skipped",
        "Tests run: 3, Failures: 1, Errors: 0, Skipped: 1",
    ),
    ("testng", "2 tests: 2 passed", "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0"),
    (
        "phpunit-9",
        "6 tests: 2 passed, 1 failed, 1 with an error, 2 skipped",
        "Tests: 6, Assertions: 3, Errors: 1, Failures: 1, Skipped: 1, Incomplete: 1",
    ),
    ("googletest", "7 tests: 3 passed, 2 failed, 2 skipped", "[  PASSED  ] 3 tests."),
    // A test whose subtests fail has a test case for each of them.
    ("xmlrunner", "4 tests: 2 passed, 2 failed", "FAILED (failures=2)"),
];

fn fixture(path: &str) -> String {
    format!("{}/tests/fixtures/junit/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn totals_count_test_cases() {
    for (sample, counted, printed) in SAMPLES {
        let outcome = attest("--dry-run").args([fixture(sample).as_str()]).run();
        assert_eq!(particular(&outcome.expect(0, &[]).stdout, "tests"), counted, "{sample}");
        let producer = sample.split('/').next().unwrap();
        let all = std::fs::read_to_string(fixture(&format!("{producer}/printed.txt"))).unwrap();
        assert!(all.contains(printed), "{producer} did not print {printed}");
    }
}

#[test]
fn package_that_could_not_be_built_is_attested_as_an_error() {
    // Remove the failed tests, so that only this error is left.
    let text = std::fs::read_to_string(fixture("gotestsum/report.xml")).unwrap();
    let failure = regex::Regex::new(r"(?s)<failure .*?</failure>").unwrap();
    let text = failure.replace_all(&text, "").replace("failures=\"4\"", "").replace("failures=\"3\"", "");
    let text = text.replace("failures=\"1\"", "");
    let server = Server::start(|_| Reply::json(201, ""));
    let outcome = attest("--fail-on-failures r.xml").file("r.xml", &text).service(&server).run();
    outcome.expect(9, &["not all tests passed: 10 tests: 8 passed, 1 with an error, 1 skipped"]);
    let [request] = server.requests().try_into().unwrap();
    let sent = String::from_utf8_lossy(&request.body).into_owned();
    assert!(
        sent.contains(r#""name":"tests that could not be run""#) && sent.contains(r#""errors":1"#),
        "{sent}"
    );
}

#[test]
fn invalid_xml_of_a_converter_is_rejected_with_its_position() {
    let outcome = attest("--dry-run").args([fixture("trx/cart-junit.xml").as_str()]).run();
    outcome
        .expect(2, &["trx/cart-junit.xml\" as JUnit XML", "line 15, column 9: expected &amp;, got a bare &"]);
    let outcome = attest("--dry-run").args([fixture("trx/cart.trx").as_str()]).run();
    outcome.expect(2, &["got <TestRun> (a .NET .trx file)"]);
}
