//! JUnit XML.

use std::path::Path;

use super::assert_printable;
use junit::{self, ResultFiles, Results};
use model::{JunitAttestation, JunitFields, JunitResult};
use rules::verdict;
use service::fuzzing;

/// A file of results.
pub fn junit(bytes: &[u8]) {
    let failed_tests = junit::failed_tests(bytes, 50);
    let read = match junit::read(bytes) {
        Ok(read) => read,
        Err(error) => {
            let message = error.to_string();
            assert_printable(&message);
            assert!(message.len() < 1_000, "{message}");
            assert_eq!(
                failed_tests.map_err(|error| error.to_string()),
                Err(message),
                "both passes fail alike"
            );
            return;
        }
    };
    let sum = JunitResult::sum(&read.results);
    assert!(sum.failures + sum.errors + sum.skipped <= sum.total, "{sum:?}");
    assert!(read.results.len() <= 2_000);
    let failed_tests = failed_tests.expect("both passes succeed alike");
    assert!(failed_tests.len() <= 50 && failed_tests.len() <= (sum.failures + sum.errors) as usize);
    for test in failed_tests {
        assert!(test.message.chars().count() <= 501 && test.output.len() <= 2_000);
    }
    // Additional totals of a <testsuites> element count only at the root, so only <testsuite> roots are doubled.
    if let Ok(text) = str::from_utf8(bytes)
        && text
            .strip_prefix("<testsuite")
            .is_some_and(|rest| rest.starts_with(|c: char| " \t\r\n/>".contains(c)))
    {
        assert_doubled(text, &sum);
    }
    assert_copied(bytes, &sum);
    assert_attestable(read);
}

/// A copy in the same folder changes nothing.
fn assert_copied(bytes: &[u8], sum: &JunitResult) {
    let mut files = ResultFiles::default();
    for path in ["results/a.xml", "results/b.xml"] {
        files.add(Path::new(path), bytes).expect("it can be read again");
    }
    let copied = JunitResult::sum(&files.results().results);
    let numbers = |result: &JunitResult| (result.total, result.failures, result.errors, result.skipped);
    assert_eq!(numbers(&copied), numbers(sum));
}

/// A file with the same suite twice has twice as many tests.
fn assert_doubled(text: &str, sum: &JunitResult) {
    // The additional level may exceed the maximum depth.
    let Ok(twice) = junit::read(format!("<testsuites>{text}{text}</testsuites>").as_bytes()) else { return };
    let twice = JunitResult::sum(&twice.results);
    for (twice, once) in [
        (twice.total, sum.total),
        (twice.failures, sum.failures),
        (twice.errors, sum.errors),
        (twice.skipped, sum.skipped),
    ] {
        assert_eq!(twice, once * 2, "{text}");
    }
}

/// The service accepts an attestation of the parsed results, and reads the same from it.
fn assert_attestable(read: Results) {
    let fields = serde_json::from_str(r#"{"attestation_name": "unit-tests"}"#).expect("the required field");
    let sent = JunitAttestation { fields, own: JunitFields { junit_results: read.results } };
    let written = serde_json::to_string(&sent).expect("an attestation is JSON");
    assert!(!written.contains('\0'), "PostgreSQL cannot store NUL");
    let again = fuzzing::attestation(written.as_bytes());
    let again = again.unwrap_or_else(|rejection| panic!("{rejection:?}: {written}"));
    assert_eq!(serde_json::to_string(&again).expect("an attestation is JSON"), written);

    let results = &sent.own.junit_results;
    let unsuccessful = JunitResult::sum(results).unsuccessful();
    let passed: u64 = results.iter().map(|result| u64::from(result.passed())).sum();
    assert_eq!(verdict::passes(results), passed > 0 && unsuccessful == 0, "{written}");
}
