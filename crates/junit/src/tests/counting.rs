use super::*;

#[test]
fn test_cases_are_counted_and_only_declared_failures_are_compared() {
    for (xml, expected) in [
        (
            r#"<testsuites tests="99" failures="98" errors="97"><testsuite name="cart" tests="7" time="9" timestamp="2026-09-15T12:00:00">
                 <testcase name="a" time="0.1"/>
                 <testcase name="a" time="0.2"><failure message="a &lt; b">x &amp; y</failure><system-out>o</system-out></testcase>
                 <testcase name="a"><error/><failure/></testcase>
                 <testcase name="a"><skipped/></testcase>
               </testsuite></testsuites>"#,
            "cart: 4/1/1/1 0.3 1789473600\ntests that could not be run: 193/0/193/0 - -\n",
        ),
        // The root is a suite; inner suites are counted with the outer one.
        (
            r#"<testsuite name="all"><testcase name="a" time="1"/><testsuite name="one" timestamp="2026-09-15T12:00:00.5+02:00">
                 <testcase name="a" time="2"><skipped/></testcase><testsuite><testcase name="a"/></testsuite></testsuite></testsuite>"#,
            "all: 3/0/0/1 3 1789466400.5\n",
        ),
        // Two suites; one declares a duration that its tests do not have.
        (
            r#"<?xml version="1.0"?><!-- c --><testsuites><testsuite name="a" time="1.5"><testcase name="a"/></testsuite>
               <testsuite name="b &amp; &#99;" package="p"/></testsuites><!-- end -->"#,
            "a: 1/0/0/0 1.5 -\nb & c: 0/0/0/0 - -\n",
        ),
        // Test cases outside of suites, as Node's test runner writes them, and an unknown wrapper element.
        (
            r#"<testsuites name="r"><testcase name="a"/><testsuite name="s"><testcase name="a"/></testsuite><x><testcase name="a"><failure/></testcase></x></testsuites>"#,
            "s: 1/0/0/0 - -\nr: 2/1/0/0 - -\n",
        ),
        // A test that passed when it was retried, and one that did not.
        (
            r#"<testsuite name="s"><testcase name="a"><flakyFailure/></testcase><testcase name="a"><failure/><rerunFailure/></testcase></testsuite>"#,
            "s: 2/1/0/0 - -\n",
        ),
        // A todo test, and a test whose executable is missing.
        (
            r#"<testsuite name="s" failures="1" errors="1"><testcase name="a"><skipped type="todo"/><failure/></testcase>
               <testcase name="a" status="notrun"><skipped message="Unable to find executable"/></testcase></testsuite>"#,
            "s: 2/0/1/1 - -\n",
        ),
        // Skipped tests that are marked by an attribute.
        (
            r#"<testsuite name="s"><testcase name="a" status="run" result="completed"/><testcase name="a" status="notrun" result="suppressed"/>
               <testcase name="a" status="disabled"/><testcase name="a" status="Failed"/></testsuite>"#,
            "s: 4/1/0/2 - -\n",
        ),
        // XML in the output of a test case does not count.
        (
            r#"<testsuite name="s"><testcase name="a"><system-out><testsuite><testcase name="a"><failure/></testcase></testsuite></system-out></testcase></testsuite>"#,
            "s: 1/0/0/0 - -\n",
        ),
        (
            r#"<testsuite name="s"><testcase name="a" status="timeout"/><system-out><testcase name="a"><failure/></testcase><error/></system-out></testsuite>"#,
            "s: 1/0/1/0 - -\n",
        ),
        // Nested test cases are counted.
        (
            r#"<testsuite name="s"><testcase name="a"><testcase name="a"><failure/></testcase><testsuite><testcase name="a"><error/></testcase></testsuite></testcase></testsuite>"#,
            "s: 3/1/1/0 - -\n",
        ),
        (
            r#"<t:testsuite xmlns:t="urn:x" t:name="s"><t:testcase t:name="a"/></t:testsuite>"#,
            "s: 1/0/0/0 - -\n",
        ),
        ("<testsuites/>", ""),
        ("\u{feff}<testsuite><testcase name=\"a\"/></testsuite>\n", ": 1/0/0/0 - -\n"),
    ] {
        assert_eq!(counted(xml), expected, "{xml}");
    }
}

#[test]
fn number_of_results_is_bounded_and_every_test_is_counted() {
    let many = format!(
        "<testsuites>{}</testsuites>",
        "<testsuite name=\"s\"><testcase name=\"a\" time=\"1e9\"/></testsuite>".repeat(5_000)
    );
    let Results { results, .. } = read(many.as_bytes()).unwrap();
    assert_eq!((results.len(), results.iter().map(|result| result.total).sum::<u32>()), (2_000, 5_000));
    let last = results.last().unwrap();
    assert_eq!((last.name.as_str(), last.total, last.duration), ("all other suites", 3_001, Some(1e9)));
}

#[test]
fn deep_nesting_is_rejected_and_many_tests_are_counted() {
    let nested =
        |deep| format!("{}<testcase name=\"a\"/>{}", "<testsuite>".repeat(deep), "</testsuite>".repeat(deep));
    assert_eq!(counted(&nested(255)), ": 1/0/0/0 - -\n");
    assert!(error_of(nested(5_000)).ends_with("elements are nested deeper than 256 levels"));
    let many = format!(
        "<testsuite>{}</testsuite>",
        "<testcase name=\"a\" time=\"1\"><failure/></testcase>".repeat(20_000)
    );
    assert_eq!(counted(&many), ": 20000/20000/0/0 20000 -\n");
    let wide = format!("<testsuite {}/>", "a=\"\" ".repeat(200_000));
    assert_eq!(counted(&wide), ": 0/0/0/0 - -\n");
}

#[test]
fn invalid_time_or_timestamp_is_ignored() {
    for (time, expected) in [
        ("1.5", "1.5"),
        ("1,234.567", "1234.567"),
        ("0", "0"),
        ("1e-7", "0"),
        ("-1", "-"),
        ("NaN", "-"),
        ("inf", "-"),
        ("1e300", "-"),
        ("0,005", "-"),
        ("1.234,56", "1234.56"),
        ("12.345.678,5", "12345678.5"),
        ("1,234,567.25", "1234567.25"),
        ("1,23.4", "-"),
        ("1,234", "-"),
        ("1,234.5,6", "-"),
        (",5.0", "-"),
        ("", "-"),
    ] {
        let xml = format!(r#"<testsuite name="s"><testcase name="a" time="{time}"/></testsuite>"#);
        assert_eq!(counted(&xml), format!("s: 1/0/0/0 {expected} -\n"), "{time}");
    }
    for (timestamp, expected) in [
        ("2026-09-15T12:00:00Z", "1789473600"),
        ("2026-09-15T12:00:00.250+00:00", "1789473600.25"),
        ("2026-09-15T12:00:00", "1789473600"),
        ("2026-09-15 12:00:00", "1789473600"),
        ("1969-12-31T23:59:59Z", "-"),
        ("yesterday", "-"),
    ] {
        let xml = format!(r#"<testsuite name="s" timestamp="{timestamp}"/>"#);
        assert_eq!(counted(&xml), format!("s: 0/0/0/0 - {expected}\n"), "{timestamp}");
    }
}
