//! JUnit XML.

use super::{attestation, is_told};
use crate::domain::attestation::junit::{self, Results};
use crate::domain::model::{JunitAttestation, JunitResult, ShortText};

pub(super) fn target(bytes: &[u8]) {
    let wrong = junit::wrong(bytes, 50);
    let read = match junit::read(bytes) {
        Ok(read) => read,
        Err(error) => {
            let told = error.to_string();
            is_told(&told);
            assert!(told.len() < 1_000, "{told}");
            assert_eq!(wrong.map_err(|error| error.to_string()), Err(told), "both readings fail by the same");
            return;
        }
    };
    let sum = JunitResult::of_all(&read.results);
    assert!(sum.failures + sum.errors + sum.skipped <= sum.total, "{sum:?}");
    assert!(read.results.len() <= 2_000 && read.doubts.len() <= 100);
    let wrong = wrong.expect("what can be read once can be read twice");
    assert!(wrong.len() <= 50 && wrong.len() <= (sum.failures + sum.errors) as usize);
    for wrong in wrong {
        assert!(wrong.message.chars().count() <= 501 && wrong.output.len() <= 2_000);
    }
    // What a root of several suites says beyond them, it says as a root alone.
    if let Ok(text) = str::from_utf8(bytes)
        && text
            .strip_prefix("<testsuite")
            .is_some_and(|rest| rest.starts_with(|c: char| " \t\r\n/>".contains(c)))
    {
        is_twice(text, &sum);
    }
    is_attested(read);
}

/// A file in which the same stands twice has twice as many tests.
fn is_twice(text: &str, sum: &JunitResult) {
    // It may lie too deep by then.
    let Ok(twice) = junit::read(format!("<testsuites>{text}{text}</testsuites>").as_bytes()) else { return };
    let twice = JunitResult::of_all(&twice.results);
    for (twice, once) in [
        (twice.total, sum.total),
        (twice.failures, sum.failures),
        (twice.errors, sum.errors),
        (twice.skipped, sum.skipped),
    ] {
        assert_eq!(twice, once * 2, "{text}");
    }
}

/// What was read can be attested: the service takes it.
fn is_attested(read: Results) {
    let sent = JunitAttestation {
        attestation_name: ShortText::new("unit-tests").expect("a name"),
        junit_results: read.results,
        origin_url: None,
        description: None,
        artifact_fingerprint: None,
        target_artifacts: None,
        git_commit_info: None,
        repo_info: None,
        external_urls: None,
        annotations: None,
        user_data: None,
    };
    attestation::is_taken(&sent);
}
