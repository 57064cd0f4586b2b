use super::*;

#[test]
fn attempts_count_once_with_the_last_outcome() {
    const A: &str = r#"<testcase classname="c" name="a"/>"#;
    const F: &str = r#"<testcase classname="c" name="a"><failure/></testcase>"#;
    const B: &str = r#"<testcase classname="c" name="b"/>"#;
    let two = "2 earlier attempts of a test: not counted";
    let one = "1 earlier attempt of a test: not counted";
    assert_decided(&[
        (&format!(r#" tests="1" failures="1">{A}{A}{F}"#), "1/1/0/0", two),
        (&format!(r#" tests="1">{A}{A}{A}"#), "1/0/0/0", two),
        (&format!(r#" tests="1" failures="0">{F}{F}{A}"#), "1/0/0/0", two),
        (&format!(r#" tests="2">{F}{A}{B}"#), "2/0/0/0", one),
        // Tests of one name, as many as the suite declares or without a number.
        (&format!(r#" tests="3">{F}{A}{A}"#), "3/1/0/0", ""),
        (&format!(">{F}{A}{A}"), "3/1/0/0", ""),
        // Totals that do not fit: the worst one counts.
        (&format!(r#" tests="2">{F}{A}{A}"#), "1/1/0/0", two),
        (&format!(r#" tests="2" failures="0">{F}{A}{A}"#), "1/0/0/0", two),
        (&format!(r#" tests="2" failures="1">{F}{A}{A}"#), "1/1/0/0", two),
        // Totals that count something else.
        (&format!(r#" tests="0">{F}{A}{B}"#), "3/1/0/0", ""),
        (&format!(r#" tests="1">{F}{A}{B}"#), "3/1/0/0", ""),
        // The suite counts the test as failed.
        (
            &format!(r#" tests="1" failures="1">{F}{A}"#),
            "2/0/1/0",
            "1 earlier attempt of a test: not counted; 1 error declared by a suite outside of its tests",
        ),
        // Other names, and cases without a name.
        (&format!(r#" tests="1">{A}{B}"#), "2/0/0/0", ""),
        (r#" tests="1"><testcase/><testcase/>"#, "2/0/2/0", "2 tests without name and outcome: an error"),
        // Marked attempts.
        (r#"><testcase name="a"><failure/></testcase><testcase name="a" rerun="true"/>"#, "1/0/0/0", one),
        (
            r#"><testcase name="a"><failure/></testcase><testcase name="a" retry="1"><failure/></testcase><testcase name="a" retry="2"/>"#,
            "1/0/0/0",
            two,
        ),
        (r#"><testcase name="a" rerun="false"><failure/></testcase><testcase name="a"/>"#, "2/1/0/0", ""),
        // An outer suite declares the tests.
        (&format!(r#" tests="1"><testsuite>{F}{A}</testsuite>"#), "1/0/0/0", one),
        (
            &format!(r#" tests="2"><testsuite name="x">{F}</testsuite><testsuite name="y">{A}</testsuite>"#),
            "2/1/0/0",
            "",
        ),
        (
            &format!(r#" tests="1"><testsuite name="x">{F}</testsuite><testsuite name="y">{A}</testsuite>"#),
            "2/1/0/0",
            "",
        ),
    ]);
    let root = format!(r#"<testsuites tests="1"><testsuite>{F}{A}</testsuite></testsuites>"#);
    assert_eq!(decided(&[("r.xml", &root)]), ("1/0/0/0".to_owned(), one.to_owned()));
}

#[test]
fn attempts_that_totals_or_marks_do_not_tell_apart_count_with_the_worst_outcome() {
    const A: &str = r#"<testcase classname="c" name="a"/>"#;
    const F: &str = r#"<testcase classname="c" name="a"><failure/></testcase>"#;
    const E: &str = r#"<testcase classname="c" name="a"><error/></testcase>"#;
    const R: &str = r#"<testcase classname="c" name="a" rerun="true"/>"#;
    const S: &str = r#"<testcase classname="c" name="s"><skipped/></testcase>"#;
    let two = "2 earlier attempts of a test: not counted";
    let one = "1 earlier attempt of a test: not counted";
    assert_decided(&[
        // The suite may not count the skipped test instead.
        (&format!(r#" tests="2" skipped="1">{F}{A}{S}"#), "2/1/0/1", one),
        (&format!(r#" tests="2">{F}{A}{S}"#), "2/1/0/1", one),
        (&format!(r#" tests="2" failures="0">{E}{A}{S}"#), "2/0/1/1", one),
        (&format!(r#" tests="2" errors="0">{F}{A}{S}"#), "2/1/0/1", one),
        (&format!(r#" tests="2" failures="0" errors="0">{E}{A}{S}"#), "2/0/0/1", one),
        (&format!(r#" tests="2" failures="0">{F}{A}{S}"#), "2/0/0/1", one),
        // Marks that do not tell which test was repeated, or in which order.
        (&format!(">{F}{F}{R}"), "1/1/0/0", two),
        (&format!(">{F}{R}{A}"), "1/1/0/0", two),
        (r#"><testcase name="a" rerun="true"><failure/></testcase><testcase name="a"/>"#, "1/1/0/0", one),
    ]);
    for value in ["none", "off", "n", "never", "null", "-1", "0", "1.5", "disabled", ""] {
        for mark in ["rerun", "retry", "flaky"] {
            assert_decided(&[
                (&format!(r#">{F}<testcase classname="c" name="a" {mark}="{value}"/>"#), "2/1/0/0", ""),
                (
                    &format!(r#" failures="0"><testcase name="a" {mark}="{value}"><failure/></testcase>"#),
                    "1/1/0/0",
                    "",
                ),
            ]);
        }
    }
}
