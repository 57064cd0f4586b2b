use super::*;

#[test]
fn failures_declared_beyond_the_test_cases_are_errors_unless_a_case_failed() {
    for (xml, expected) in [
        (
            r#"<testsuite name="s" failures="1" errors="1"><testcase name="a"><error/></testcase></testsuite>"#,
            "s: 1/0/1/0 - -\n",
        ),
        (r#"<testsuite name="s" errors="1" tests="0"/>"#, "s: 1/0/1/0 - -\n"),
        (
            r#"<testsuite name="s"><error>no such file</error><testcase name="a"/></testsuite>"#,
            "s: 2/0/1/0 - -\n",
        ),
        // Surefire counts every attempt.
        (
            r#"<testsuite name="s" failures="3"><testcase name="a"><failure/><rerunFailure/></testcase><testcase name="a"><flakyFailure/></testcase></testsuite>"#,
            "s: 2/1/0/0 - -\n",
        ),
        // gotestsum declares a package that could not be built only in the root.
        (
            r#"<testsuites name="r" errors="1"><testsuite name="s" errors="0"><testcase name="a"/></testsuite></testsuites>"#,
            "s: 1/0/0/0 - -\nr: 1/0/1/0 - -\n",
        ),
        // The root also counts the errors of suites, once at any depth.
        (
            r#"<testsuites name="r" failures="1" errors="1"><testsuite name="s" failures="1"><testcase name="a"/></testsuite></testsuites>"#,
            "s: 2/0/1/0 - -\nr: 1/0/1/0 - -\n",
        ),
        (
            r#"<testsuites name="r" failures="2"><testsuite name="o" failures="1"><testsuite name="s" failures="1"><testcase name="a"/></testsuite></testsuite></testsuites>"#,
            "o: 2/0/1/0 - -\nr: 1/0/1/0 - -\n",
        ),
        (
            r#"<testsuites name="r" failures="1"><testsuite name="o"><testsuite name="s" failures="1"><testcase name="a"/></testsuite><testcase name="a"/></testsuite></testsuites>"#,
            "o: 3/0/1/0 - -\n",
        ),
        // A suite that could not be run is counted, up to the limit.
        (
            r#"<testsuites name="r" errors="2"><testsuite name="s" errors="1" tests="0"/></testsuites>"#,
            "s: 1/0/1/0 - -\nr: 1/0/1/0 - -\n",
        ),
        (
            r#"<testsuites name="r" errors="5000"><testsuite name="s" errors="5000" tests="0"/></testsuites>"#,
            "s: 1000/0/1000/0 - -\n",
        ),
        (
            r#"<testsuite name="s" failures="x" errors="-1"><testcase name="a"/></testsuite>"#,
            "s: 3/0/2/0 - -\n",
        ),
    ] {
        assert_eq!(counted(xml), expected, "{xml}");
    }
}

#[test]
fn errors_are_excused_only_by_declared_errors_and_never_against_the_status() {
    assert_decided(&[
        (r#" failures="0"><testcase name="a" flaky="true"><error/></testcase>"#, "1/0/1/0", ""),
        (r#" errors="0"><testcase name="a" flaky="true"><failure/></testcase>"#, "1/1/0/0", ""),
        (r#" failures="0"><testcase name="a"><skipped/><error/></testcase>"#, "1/0/1/0", ""),
        (r#" failures="0"><testcase name="a"><failure/><flakyError/><error/></testcase>"#, "1/0/1/0", ""),
    ]);
    for (status, counts) in [("timeout", "1/0/1/0"), ("aborted", "1/0/1/0"), ("failed", "1/0/1/0")] {
        for mark in [r#"flaky="true""#, r#"rerun="1""#, r#"result="skipped""#] {
            let xml = format!(
                r#" failures="0" errors="0"><testcase name="a" status="{status}" {mark}><error/></testcase>"#
            );
            let xml = format!("<testsuite{xml}</testsuite>");
            assert_eq!(decided(&[("r.xml", &xml)]).0, counts, "{xml}");
        }
    }
}

#[test]
fn declared_failures_and_errors_are_compared_separately_and_not_hidden_by_what_did_not_fail() {
    const P: &str = r#"<testcase name="p"/>"#;
    const FLAKY: &str = r#"<testcase name="a"><flakyFailure/></testcase>"#;
    let error = "1 error declared by a suite outside of its tests";
    assert_decided(&[
        (
            &format!(r#" errors="1"><testcase name="a"><skipped type="todo"/></testcase>{P}"#),
            "3/0/1/1",
            error,
        ),
        (
            &format!(r#" failures="1"><testcase name="a"><skipped type="todo"/></testcase>{P}"#),
            "3/0/1/1",
            error,
        ),
        (
            &format!(r#" errors="1"><testcase name="a"><skipped type="todo"/><failure/></testcase>{P}"#),
            "3/0/1/1",
            error,
        ),
        (
            &format!(r#" failures="1"><testcase name="a"><skipped type="todo"/><failure/></testcase>{P}"#),
            "2/0/0/1",
            "",
        ),
        (&format!(r#" tests="2" failures="0" errors="1">{FLAKY}{P}"#), "3/0/1/0", error),
        (
            &format!(r#" tests="2" failures="1"><testcase name="a"><flakyError/></testcase>{P}"#),
            "3/0/1/0",
            error,
        ),
        (&format!(r#" tests="2" errors="1"><testcase name="a"><flakyError/></testcase>{P}"#), "2/0/0/0", ""),
        (
            &format!(r#" tests="2" failures="1"><testcase name="a"><rerunFailure/></testcase>{P}"#),
            "3/0/1/0",
            error,
        ),
        (
            &format!(r#" tests="2" errors="1"><testcase name="a"><rerunError/></testcase>{P}"#),
            "3/0/1/0",
            error,
        ),
        (&format!(r#" failures="2">{FLAKY}{P}"#), "3/0/1/0", error),
    ]);
    for (xml, counts) in [
        (format!(r#"<testsuites errors="1"><testsuite>{FLAKY}</testsuite></testsuites>"#), "2/0/1/0"),
        (format!(r#"<testsuites failures="1"><testsuite>{FLAKY}</testsuite></testsuites>"#), "1/0/0/0"),
        // The suite does not declare the attempt, so neither does the root.
        (
            format!(r#"<testsuites failures="1"><testsuite failures="0">{FLAKY}</testsuite></testsuites>"#),
            "2/0/1/0",
        ),
        (
            format!(
                r#"<testsuites failures="1" errors="1"><testsuite failures="1">{P}</testsuite></testsuites>"#
            ),
            "3/0/2/0",
        ),
        (
            format!(r#"<testsuites errors="1"><testsuite failures="1">{P}</testsuite></testsuites>"#),
            "3/0/2/0",
        ),
    ] {
        assert_eq!(decided(&[("r.xml", &xml)]).0, counts, "{xml}");
    }
}

#[test]
fn declared_total_that_is_not_a_number_is_an_error_that_names_it() {
    for total in ["errors", "failures", "tests"] {
        for value in ["1.0", "1,000", "18446744073709551616", "-1", "none", "1 2", "0x1", "1e0", "NaN"] {
            let said = format!("1 suite with {total}=\"{value}\", not a number: an error");
            assert_decided(&[
                (&format!(r#" {total}="{value}"><testcase name="a"/>"#), "2/0/1/0", &said),
                (
                    &format!(r#"><testsuite {total}="{value}"><testcase name="a"/></testsuite>"#),
                    "2/0/1/0",
                    &said,
                ),
            ]);
            let root = format!(
                r#"<testsuites {total}="{value}"><testsuite><testcase name="a"/></testsuite></testsuites>"#
            );
            assert_eq!(decided(&[("r.xml", &root)]), ("2/0/1/0".to_owned(), said));
        }
        for value in ["", " ", " 0 ", "0.0"] {
            assert_decided(&[(&format!(r#" {total}="{value}"><testcase name="a"/>"#), "1/0/0/0", "")]);
        }
    }
    let xml = br#"<testsuites errors="x"><testsuite name="s" failures="y"><testcase name="a"/></testsuite></testsuites>"#;
    let messages: Vec<_> = failed_tests(xml, 9).unwrap().into_iter().map(|test| test.message).collect();
    assert_eq!(
        messages,
        [
            "the suite declares errors=\"x\", which is not a number",
            "the suite declares failures=\"y\", which is not a number"
        ]
    );
}

#[test]
fn only_marked_failures_are_excused_by_the_totals_of_the_suite() {
    let one = "1 failure excused by the totals of the suite";
    assert_decided(&[
        (r#" failures="0"><testcase><skipped/><failure/></testcase>"#, "1/0/0/1", one),
        (r#" failures="0" errors="0"><testcase name="a"><error/><skipped/></testcase>"#, "1/0/0/1", one),
        (r#" failures="0"><testcase name="a" status="disabled"><failure/></testcase>"#, "1/0/0/1", one),
        (r#" failures="0"><testcase flaky="true"><failure/></testcase>"#, "1/0/0/0", one),
        (r#" failures="0" errors="0"><testcase name="a" retry="1"><error/></testcase>"#, "1/0/0/0", one),
        (r#" failures="0"><testcase name="a"><failure/><flakyFailure/></testcase>"#, "1/0/0/0", one),
        // The suite counts it, or declares nothing.
        (r#" failures="1"><testcase><skipped/><failure/></testcase>"#, "1/1/0/0", ""),
        (r#" errors="1"><testcase><skipped/><failure/></testcase>"#, "1/1/0/0", ""),
        ("><testcase><skipped/><failure/></testcase>", "1/1/0/0", ""),
        (r#" failures=""><testcase><skipped/><failure/></testcase>"#, "1/1/0/0", ""),
        (
            r#" failures="none"><testcase><skipped/><failure/></testcase>"#,
            "2/1/1/0",
            "1 suite with failures=\"none\", not a number: an error",
        ),
        (r#" failures="0"><testcase flaky="false"><failure/></testcase>"#, "1/1/0/0", ""),
        // CTest's mark of a missing executable.
        (
            r#" failures="0"><testcase name="a" status="notrun"><skipped message="Unable to find executable"/></testcase>"#,
            "1/0/1/0",
            "",
        ),
        // A bare failure is never excused, nor one that failed again.
        (r#" failures="0"><testcase name="a"><failure/></testcase>"#, "1/1/0/0", ""),
        (r#" failures="0"><testcase name="a"><failure/><rerunFailure/></testcase>"#, "1/1/0/0", ""),
        (
            r#" failures="0"><testcase name="a"><failure/></testcase><testcase><skipped/><failure/></testcase>"#,
            "2/1/0/1",
            one,
        ),
        (
            r#" failures="1"><testcase name="a"><failure/></testcase><testcase><skipped/><failure/></testcase>"#,
            "2/1/0/1",
            one,
        ),
        // Assertions are counted.
        (
            r#" failures="2"><testcase name="a"><failure/><failure/></testcase><testcase><skipped/><failure/></testcase>"#,
            "2/1/0/1",
            one,
        ),
        (r#" failures="1"><testcase><skipped/><failure/><failure/></testcase>"#, "1/1/0/0", ""),
        // The innermost suite with totals decides.
        (r#" failures="0"><testsuite><testcase><skipped/><failure/></testcase></testsuite>"#, "1/0/0/1", one),
        (
            r#" failures="0"><testsuite failures="1"><testcase><skipped/><failure/></testcase></testsuite>"#,
            "1/1/0/0",
            "",
        ),
    ]);
}

#[test]
fn errors_outside_of_cases_count_once_and_counted_assertions_do_not() {
    let outside = |errors| format!("{errors} declared by a suite outside of its tests");
    assert_decided(&[
        (r#" errors="1"><testcase name="a"/>"#, "2/0/1/0", &outside("1 error")),
        (r#" failures="2"><testcase name="a"><skipped/></testcase>"#, "3/0/2/1", &outside("2 errors")),
        (r#" errors="1" tests="0">"#, "1/0/1/0", &outside("1 error")),
        (r#" errors="18446744073709551615"><testcase name="a"/>"#, "1001/0/1000/0", &outside("1000 errors")),
        // Assertions.
        (r#" failures="3"><testcase name="a"><failure/><failure/><failure/></testcase>"#, "1/1/0/0", ""),
        (r#" failures="3"><testcase name="a"><failure/></testcase><testcase name="b"/>"#, "2/1/0/0", ""),
        // Attempts that the suite counts.
        (r#" failures="1"><testcase name="a"><flakyFailure/></testcase>"#, "1/0/0/0", ""),
    ]);
    let root = r#"<testsuites failures="3"><testsuite><testcase name="a"><failure/><failure/><failure/></testcase></testsuite></testsuites>"#;
    assert_eq!(decided(&[("r.xml", root)]).0, "1/1/0/0");
}
