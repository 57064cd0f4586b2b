//! What test runners wrote in the past. Pure.

use std::fmt::Write;

use super::table::Failure;

/// The suites that tests are spread over.
const SUITES: [&str; 4] = ["api", "rules", "storage", "events"];

/// JUnit XML of so many tests, of which these failed.
pub(super) fn results(image: &str, attestation: &str, tests: u32, failures: &[Failure]) -> String {
    let mut xml = format!("<testsuites name=\"{attestation}\">\n");
    let passed = tests.saturating_sub(u32::try_from(failures.len()).unwrap_or(u32::MAX));
    let suites = u32::try_from(SUITES.len()).unwrap_or(1);
    for (suite, n) in SUITES.iter().zip(0_u32..) {
        let _ = writeln!(xml, "<testsuite name=\"{image}.{suite}\">");
        for test in (0..passed).filter(|test| test % suites == n) {
            let took = 3 + (test * 7) % 40;
            let _ = writeln!(
                xml,
                "<testcase classname=\"{image}.{suite}\" name=\"case {test}\" time=\"0.0{took:02}\"/>"
            );
        }
        let _ = writeln!(xml, "</testsuite>");
    }
    for of_class in failures.chunk_by(|one, next| one.class == next.class) {
        let class = of_class.first().map_or("", |failure| failure.class);
        let _ = writeln!(xml, "<testsuite name=\"{class}\">");
        for Failure { name, message, .. } in of_class {
            let _ = writeln!(
                xml,
                "<testcase classname=\"{class}\" name=\"{name}\" time=\"0.021\"><failure message=\"{message}\"/></testcase>"
            );
        }
        let _ = writeln!(xml, "</testsuite>");
    }
    xml.push_str("</testsuites>\n");
    xml
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::junit;

    #[test]
    fn as_many_tests_are_there_as_ran_and_those_that_failed_have_a_suite_of_their_own() {
        let failure = |name| Failure { class: "a.B", name, message: "expected 1 but was 2" };
        let xml = results("cart", "unit-tests", 11, &[failure("one"), failure("two")]);
        let read = junit::read(xml.as_bytes()).unwrap().results;
        assert_eq!(read.iter().map(|suite| suite.total).sum::<u32>(), 11);
        let failing: Vec<_> = read.iter().filter(|suite| suite.failures > 0).collect();
        assert_eq!((failing.len(), failing[0].failures, failing[0].name.as_str()), (1, 2, "a.B"));
    }
}
