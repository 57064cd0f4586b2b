use std::fmt::Write;

use encoding_rs::UTF_8;
use proptest::prelude::*;

use super::*;
use model::{JunitResult, Timestamp};

/// `name: total/failures/errors/skipped duration timestamp` of each result.
fn counted(xml: &str) -> String {
    let read = read(xml.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    read.results.into_iter().map(shown).collect()
}

fn shown(result: JunitResult) -> String {
    let JunitResult { name, failures, errors, skipped, total, duration, timestamp, .. } = result;
    let mut output = format!("{name}: {total}/{failures}/{errors}/{skipped}");
    for number in [duration, timestamp.map(Timestamp::seconds)] {
        write!(output, " {}", number.map_or("-".to_owned(), |number| number.to_string())).unwrap();
    }
    output + "\n"
}

/// `total/failures/errors/skipped` and the decisions.
fn decided(files: &[(&str, &str)]) -> (String, String) {
    let mut read = ResultFiles::default();
    for (path, xml) in files {
        read.add(Path::new(path), xml.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    }
    let Results { results, decisions } = read.results();
    let JunitResult { failures, errors, skipped, total, .. } = JunitResult::sum(&results);
    (format!("{total}/{failures}/{errors}/{skipped}"), decisions.to_string())
}

fn error_of(xml: impl AsRef<[u8]>) -> String {
    read(xml.as_ref()).unwrap_err().to_string()
}

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

#[test]
fn invalid_junit_is_rejected_with_its_position() {
    for (xml, expected) in [
        ("", "expected JUnit XML, got an empty file"),
        (" \n ", "line 1, column 1: expected <testsuites> or <testsuite>"),
        ("{\"tests\": 1}", "line 1, column 1: expected <testsuites> or <testsuite>"),
        (
            "<testsuite>\n  <testcase name=\"a\">\n",
            "line 2, column 3: the file ends inside the element that starts here",
        ),
        ("<testsuite>\n <testcase name=\"a", "line 2, column 2: invalid XML: "),
        ("<testsuite>\n é</testsuites>", "line 2, column 3: invalid XML: "),
        (
            "<!DOCTYPE html>\n<html>",
            "line 2, column 1: expected the root <testsuites> or <testsuite>, got <html> (a web page)",
        ),
        ("<TestRun/>", "got <TestRun> (a .NET .trx file)"),
        ("<testsuite/><testsuite/>", "line 1, column 13: expected one root element, got a second one"),
        ("<testsuite/>x", "line 1, column 13: expected <testsuites> or <testsuite>"),
        (
            "<testsuite><testcase>a & b</testcase></testsuite>",
            "line 1, column 24: expected &amp;, got a bare &",
        ),
        (
            "<testsuite>\n<testcase name=\"a & b\"/></testsuite>",
            "line 2, column 1: expected &amp;, got a bare &",
        ),
        ("<testsuite a=\"1\" b></testsuite>", "line 1, column 1: invalid XML: "),
        ("<testsuite name=\"&e;\"/>", "line 1, column 1: unsupported entity &e;"),
        (
            "<!DOCTYPE t [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>\n<testsuite><testcase>&e;</testcase></testsuite>",
            "line 2, column 22: unsupported entity &e;",
        ),
        ("<?xml version=\"1.0\" encoding=\"klingon\"?><testsuite/>", "unknown encoding \"klingon\""),
        ("</testsuite>", "line 1, column 1: invalid XML: "),
        ("<\u{1b}[31m/>", "got <\\u{1b}[31m>"),
    ] {
        let error = error_of(xml);
        assert!(error.contains(expected), "{xml}\n{error}\n{expected}");
    }
    let one = ResultFiles::default().add(Path::new("r.xml"), b"").unwrap_err();
    assert_eq!(
        (one.to_string(), one.may_have_suites),
        ("expected JUnit XML, got an empty file".to_owned(), false)
    );
}

#[test]
fn entity_expansion_attack_is_rejected() {
    let mut xml = "<!DOCTYPE l [<!ENTITY l0 \"<testcase name=\"a\"/>\">".to_owned();
    (1..10).for_each(|n| write!(xml, "<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10)).unwrap());
    xml.push_str("]><testsuite name=\"s\"><testcase name=\"a\"/></testsuite>");
    assert_eq!(counted(&xml), "s: 1/0/0/0 - -\n");
    let laughing = xml.replace("</testsuite>", "&l9;</testsuite>");
    assert!(error_of(&laughing).contains("unsupported entity &l9;"));
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
fn encoding_is_detected_from_byte_order_mark_or_declaration() {
    let xml = |encoding: &str| {
        format!(
            "<?xml version='1.0' encoding = '{encoding}' ?><testsuite name=\"café\"><testcase name=\"a\"/></testsuite>"
        )
    };
    let utf16 = |xml: &str, bytes: fn(u16) -> [u8; 2]| xml.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
    let latin = |xml: &str| encoding_rs::WINDOWS_1252.encode(xml).0.into_owned();
    for bytes in [
        utf16(&format!("\u{feff}{}", xml("UTF-16")), u16::to_le_bytes),
        utf16(&format!("\u{feff}{}", xml("UTF-16")), u16::to_be_bytes),
        utf16(&xml("UTF-16"), u16::to_le_bytes),
        utf16(&xml("UTF-16BE"), u16::to_be_bytes),
        latin(&xml("ISO-8859-1")),
        UTF_8.encode(&xml("utf-8")).0.into_owned(),
        UTF_8.encode(&xml("UTF-16")).0.into_owned(),
    ] {
        let name = &read(&bytes).unwrap().results[0].name;
        assert_eq!(name.as_str(), "café", "{:?}", String::from_utf8_lossy(&bytes));
    }
    let half = utf16(&format!("\u{feff}{}", xml("UTF-16")), u16::to_le_bytes);
    assert_eq!(error_of(&half[..half.len() - 1]), "invalid UTF-16LE, the encoding of the file");
}

proptest! {
    #[test]
    fn any_input_is_read_or_rejected(
        pieces in proptest::collection::vec(prop_oneof![
            Just("<testsuites>"), Just("</testsuites>"), Just("<testsuite name=\"&lt;\" errors=\"3\">"),
            Just("</testsuite>"), Just("<testcase name=\"a\" time=\"-0\">"), Just("</testcase>"), Just("<failure/>"),
            Just("<!DOCTYPE x ["), Just("]>"), Just("&amp;"), Just("&x;"), Just("<![CDATA["), Just("]]>"),
            Just("<!--"), Just("-->"), Just("<?xml"), Just("?>"), Just("é\0"), Just("\u{feff}"), Just("<"),
        ], 0..20),
        end in 0_usize..200,
    ) {
        let xml = pieces.concat();
        let bytes = xml.as_bytes();
        if let Err(error) = read(&bytes[..bytes.len().min(end)]) {
            prop_assert!(!error.to_string().contains('\0'));
        }
    }
}

#[test]
fn failed_tests_are_listed_with_message_and_output() {
    let xml = r#"<testsuites><testsuite name="cart">
        <testcase classname="Cart" name="adds &lt;one&gt;"><failure message="no &amp; never">
          at cart.rs:1 &lt;here&#33;&gt;<![CDATA[ and <b>there</b>]]></failure><system-out>noise</system-out></testcase>
        <testcase name="passes"/>
        <testcase name="skipped"><skipped message="later"/></testcase>
        <testcase name="at last"><flakyFailure message="first try">trace</flakyFailure></testcase>
        <testcase name="todo"><failure message="known"/><skipped type="todo"/></testcase>
        <testsuite name="inner"><testcase name="crashes"><error type="E">cold</error></testcase></testsuite>
        <testcase name="by its status" status="failed"/>
      </testsuite><testcase name="alone"><failure/></testcase></testsuites>"#;
    let tests = failed_tests(xml.as_bytes(), 10).unwrap();
    let tests: Vec<_> =
        tests.iter().map(|w| (&*w.suite, &*w.class, &*w.name, w.is_error, &*w.message, &*w.output)).collect();
    assert_eq!(
        tests,
        [
            ("cart", "Cart", "adds <one>", false, "no & never", "at cart.rs:1 <here!> and <b>there</b>"),
            ("inner", "", "crashes", true, "", "cold"),
            ("cart", "", "by its status", false, "", ""),
            ("", "", "alone", false, "", ""),
        ]
    );
    let counted: u32 = read(xml.as_bytes()).unwrap().results.iter().map(JunitResult::unsuccessful).sum();
    assert_eq!(tests.len(), usize::try_from(counted).unwrap());
    assert_eq!(failed_tests(xml.as_bytes(), 2).unwrap().len(), 2);
    assert!(failed_tests(b"<testsuite>", 1).is_err());
}

#[test]
fn failed_test_with_an_unreadable_message_is_listed() {
    let xml =
        r#"<testsuite><testcase name="a"><failure message="x &; y">at z</failure></testcase></testsuite>"#;
    assert_eq!(counted(xml), ": 1/1/0/0 - -\n");
    let test = failed_tests(xml.as_bytes(), 1).unwrap().remove(0);
    assert_eq!((&*test.name, &*test.message, &*test.output), ("a", "", "at z"));
}

#[test]
fn name_message_and_output_of_a_failed_test_are_bounded() {
    let long = "\u{e9}".repeat(10_000);
    let xml = format!(
        r#"<testsuite><testcase name="{long}"><failure message="{long}">{long}</failure></testcase></testsuite>"#
    );
    let test = failed_tests(xml.as_bytes(), 1).unwrap().remove(0);
    assert_eq!(
        (test.name.chars().count(), test.message.chars().count(), test.output.len()),
        (256, 501, 2_000)
    );
}

/// Each row: the content of a suite with its attributes, `total/failures/errors/skipped`, and the decisions.
#[track_caller]
fn assert_decided(rows: &[(&str, &str, &str)]) {
    for (xml, counts, decisions) in rows {
        let (counted, decided) = decided(&[("r.xml", &format!("<testsuite{xml}</testsuite>"))]);
        assert_eq!((counted.as_str(), decided.as_str()), (*counts, *decisions), "{xml}");
    }
}

#[test]
fn case_passes_by_its_name_and_a_known_word_and_any_other_word_is_named() {
    for word in ["run", "RUN", "success", "passed", "ok", "completed", "Pass", "", " "] {
        assert_decided(&[(&format!(r#"><testcase name="a" status="{word}"/>"#), "1/0/0/0", "")]);
    }
    for word in ["notrun", "suppressed", "skipped", "disabled", "Ignored", "not run", "not-run", "NOT_RUN"] {
        assert_decided(&[(&format!(r#"><testcase name="a" result="{word}"/>"#), "1/0/0/1", "")]);
    }
    for word in [
        "CANCELED",
        "cancelled",
        "stopped",
        "pending",
        "undefined",
        "KO",
        "crash",
        "timed out",
        "flaky",
        "unknown",
        "pas",
        "in progress",
        "\u{456}\u{43f}",
        "0",
    ] {
        let named = format!("1 test with the status \"{word}\": an error");
        assert_decided(&[
            (&format!(r#"><testcase name="a" status="{word}"/>"#), "1/0/1/0", &named),
            (&format!(r#"><testcase name="a" status="run" result="{word}"/>"#), "1/0/1/0", &named),
            (&format!(r#"><testcase name="a" result="skipped" status="{word}"/>"#), "1/0/1/0", &named),
        ]);
    }
    assert_decided(&[
        // A child explains a word that is not known; the worse of a child and a known word counts.
        (r#"><testcase name="a" status="pending"><skipped/></testcase>"#, "1/0/0/1", ""),
        (r#"><testcase name="a" status="undefined"><failure/></testcase>"#, "1/1/0/0", ""),
        (r#"><testcase name="a" status="timedout"><skipped/></testcase>"#, "1/0/1/0", ""),
        (r#"><testcase name="a" status="passed"><error/></testcase>"#, "1/0/1/0", ""),
        (r#"><testcase name="a" status="failed"><system-out/></testcase>"#, "1/1/0/0", ""),
    ]);
    let many: Vec<_> = (0..7).map(|n| format!(r#"<testcase name="a{n}" status="word {n}"/>"#)).collect();
    let (counted, named) = decided(&[("r.xml", &format!("<testsuite>{}</testsuite>", many.concat()))]);
    assert_eq!(counted, "7/0/7/0");
    assert!(named.ends_with("\"word 4\": an error; 2 others without a clear outcome: an error"), "{named}");
}

#[test]
fn case_without_a_name_is_an_error_unless_a_child_says_otherwise() {
    assert_decided(&[
        (r#"><testcase time="0.000"/>"#, "1/0/1/0", "1 test without name and outcome: an error"),
        (r#"><testcase name="" status="passed"/>"#, "1/0/1/0", "1 test without name and outcome: an error"),
        (
            r#"><testcase name=" " classname="c"><system-out>x</system-out></testcase>"#,
            "1/0/1/0",
            "1 test without name and outcome: an error",
        ),
        ("><testcase name=\"\u{200b} \u{feff}\"/>", "1/0/1/0", "1 test without name and outcome: an error"),
        ("><testcase><failure/></testcase>", "1/1/0/0", ""),
        ("><testcase><skipped/></testcase>", "1/0/0/1", ""),
    ]);
}

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
fn child_of_a_case_that_is_not_known_is_an_error_that_names_it() {
    for child in
        ["aborted", "pending", "failed", "Failure", "failures", "ERROR", "Skipped", "rerun", "flakyAbort"]
    {
        let said = format!("1 test with the unknown element <{child}>: an error");
        for beside in ["", "<skipped/>", r#"<skipped type="todo"/>"#, "<failure/>", "<system-out/>"] {
            let xml =
                format!(r#"><testcase name="a" status="passed"><{child}>x</{child}>{beside}</testcase>"#);
            assert_decided(&[(&xml, "1/0/1/0", &said)]);
        }
    }
    assert_decided(&[(
        r#"><testcase name="a"><properties><failed/></properties><system-out><aborted/></system-out><system-err/></testcase>"#,
        "1/0/0/0",
        "",
    )]);
    let test =
        failed_tests(br#"<testsuite><testcase name="a"><aborted/></testcase></testsuite>"#, 1).unwrap();
    assert_eq!(test[0].message, "the element <aborted> is not known");
}

#[test]
fn every_attribute_that_says_an_outcome_counts_like_status() {
    for key in ["status", "result", "outcome", "state", "success", "Status", "OUTCOME"] {
        for (word, counts) in [
            ("passed", "1/0/0/0"),
            ("", "1/0/0/0"),
            ("skipped", "1/0/0/1"),
            ("failed", "1/1/0/0"),
            ("aborted", "1/0/1/0"),
            ("maybe", "1/0/1/0"),
            // Not a word, or another one than without its characters.
            ("-", "1/0/1/0"),
            ("_ -", "1/0/1/0"),
            ("...", "1/0/1/0"),
            ("\u{200b}", "1/0/1/0"),
            ("pas sed", "1/0/1/0"),
            ("o-k", "1/0/1/0"),
            ("-passed", "1/0/1/0"),
            ("skip_ped", "1/0/1/0"),
        ] {
            let xml = format!(r#"<testsuite><testcase name="a" {key}="{word}"/></testsuite>"#);
            assert_eq!(decided(&[("r.xml", &xml)]).0, counts, "{xml}");
        }
    }
    for (value, counts) in [
        ("true", "1/0/0/0"),
        ("True", "1/0/0/0"),
        ("1", "1/0/0/0"),
        ("false", "1/1/0/0"),
        ("no", "1/1/0/0"),
        ("0", "1/1/0/0"),
        ("2", "1/0/1/0"),
    ] {
        let xml = format!(r#"<testsuite><testcase name="a" success="{value}"/></testsuite>"#);
        assert_eq!(decided(&[("r.xml", &xml)]).0, counts, "{xml}");
    }
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

#[test]
fn copies_of_a_test_in_several_files_count_once_with_the_worse_outcome() {
    let suite = |attributes: &str, cases: &str| format!("<testsuite {attributes}>{cases}</testsuite>");
    let (a, f) = (
        r#"<testcase classname="c" name="a"/>"#,
        r#"<testcase classname="c" name="a"><failure/></testcase>"#,
    );
    let b = r#"<testcase classname="c" name="b"><skipped/></testcase>"#;
    let plain = suite(r#"name="c""#, a);
    let at = |time: &str, cases: &str| suite(&format!(r#"name="c" timestamp="{time}""#), cases);
    let on = |host: &str| suite(&format!(r#"hostname="{host}""#), a);
    let all = format!("<testsuites>{}{}</testsuites>", suite(r#"name="c""#, a), suite(r#"name="d""#, b));
    for (files, expected, copies) in [
        (vec![("r/TEST-c.xml", plain.clone()), ("r/TESTS.xml", all.clone())], "2/0/0/1", 1),
        (
            vec![
                ("r/TESTS.xml", all.clone()),
                ("r/c.xml", plain.clone()),
                ("r/d.xml", suite(r#"name="x""#, b)),
            ],
            "2/0/0/1",
            2,
        ),
        // The worse outcome, in any order.
        (vec![("r/1.xml", plain.clone()), ("r/2.xml", suite(r#"name="d""#, f))], "1/1/0/0", 1),
        (vec![("r/1.xml", suite(r#"name="d""#, f)), ("r/2.xml", plain.clone())], "1/1/0/0", 1),
        (
            vec![("r/1.xml", suite("", &format!("{a}{f}"))), ("r/2.xml", suite("", &format!("{f}{a}")))],
            "2/1/0/0",
            2,
        ),
        (vec![("r/1.xml", suite("", &format!("{a}{a}"))), ("r/2.xml", suite("", f))], "2/1/0/0", 1),
        // TestNG's folders.
        (
            vec![
                ("r/Suite/t.xml", at("15 Sep 2026 12:00:00 GMT", a)),
                ("r/TEST-c.xml", plain.clone()),
                ("r/junitreports/TEST-c.xml", at("15 Sep 2026 12:03:00 GMT", a)),
            ],
            "1/0/0/0",
            2,
        ),
        (
            vec![
                ("r/Suite/t.xml", at("2026-09-15T12:00:00 UTC", a)),
                ("r/junitreports/TEST-c.xml", at("2026-09-15T12:00:01 UTC", a)),
            ],
            "1/0/0/0",
            1,
        ),
        // Other runs: another time, another host, another module.
        (
            vec![("r/1.xml", at("2026-09-15T12:00:00", a)), ("r/2.xml", at("2026-09-15T12:10:00", a))],
            "2/0/0/0",
            0,
        ),
        (vec![("r/1.xml", on("desktop")), ("r/2.xml", on("phone"))], "2/0/0/0", 0),
        (vec![("x/r/1.xml", suite(r#"time="1""#, a)), ("y/r/1.xml", suite(r#"time="2""#, a))], "2/0/0/0", 0),
        // The same content is a copy anywhere.
        (vec![("x/r/1.xml", plain.clone()), ("y/r/1.xml", plain.clone())], "1/0/0/0", 1),
        // Tests of one name in one file, or in suites without classes.
        (vec![("r/1.xml", format!("<testsuites>{plain}{plain}</testsuites>"))], "2/0/0/0", 0),
        (
            vec![
                ("r/1.xml", suite(r#"name="x""#, r#"<testcase name="a"/>"#)),
                ("r/2.xml", suite(r#"name="y""#, r#"<testcase name="a"/>"#)),
            ],
            "2/0/0/0",
            0,
        ),
        // Errors outside of cases.
        (
            vec![
                ("r/1.xml", suite(r#"name="c" errors="1""#, a)),
                ("r/2.xml", suite(r#"name="c" errors="1" tests="1""#, a)),
            ],
            "2/0/1/0",
            1,
        ),
    ] {
        let files: Vec<_> = files.iter().map(|(path, xml)| (*path, xml.as_str())).collect();
        let (counted, decided) = decided(&files);
        let said = if copies == 1 { "1 copy" } else { "2 copies" };
        assert_eq!(
            (counted.as_str(), decided.contains(said)),
            (expected, copies > 0),
            "{files:?}: {decided}"
        );
        assert!(copies > 0 || !decided.contains("cop"), "{files:?}: {decided}");
    }
    // A result of copies only is left out.
    let mut read = ResultFiles::default();
    read.add(Path::new("r/a.xml"), all.as_bytes()).unwrap();
    read.add(Path::new("r/b.xml"), plain.as_bytes()).unwrap();
    assert_eq!(
        read.results().results.into_iter().map(shown).collect::<String>(),
        "c: 1/0/0/0 - -\nd: 1/0/0/1 - -\n"
    );
}

#[test]
fn invalid_characters_become_the_replacement_character() {
    for name in ["a&#0;b", "a&#xD800;b", "a&#x110000;b", "a&#99999999999;b", "a&#;b", "a&#x;b", "a\0b"] {
        let xml = format!(
            "<testsuite name=\"{name}\"><testcase name=\"{name}\"><failure message=\"{name}\"/></testcase></testsuite>"
        );
        assert_eq!(counted(&xml), "a\u{fffd}b: 1/1/0/0 - -\n", "{name:?}");
        let test = failed_tests(xml.as_bytes(), 1).unwrap().remove(0);
        assert_eq!(test.message.replace('\0', "\u{fffd}"), "a\u{fffd}b", "{name:?}");
    }
    let valid = counted("<testsuite name=\"&#0;&#65;&lt;&#x42;&amp;#0;\"/>");
    assert_eq!(valid, "\u{fffd}A<B&#0;: 0/0/0/0 - -\n");
    for bytes in [b"\xff".as_slice(), b"\xed\xa0\x80", b"\xc3"] {
        let xml =
            [b"<testsuite name=\"a", bytes, b"b\"><testcase name=\"c\"/>", bytes, b"</testsuite>"].concat();
        let name = read(&xml).unwrap().results.remove(0).name;
        assert_eq!(name.as_str().replace('\u{fffd}', ""), "ab", "{bytes:?}");
        assert!(name.as_str().contains('\u{fffd}'));
    }
    let surrogate: Vec<u8> = "\u{feff}<testsuite name=\"x?y\"/>"
        .encode_utf16()
        .flat_map(|unit| if unit == u16::from(b'?') { 0xd800_u16 } else { unit }.to_le_bytes())
        .collect();
    assert_eq!(read(&surrogate).unwrap().results[0].name.as_str(), "x\u{fffd}y");
}

#[test]
fn unreadable_file_tells_whether_its_root_is_a_suite() {
    for (bytes, may_have_suites) in [
        (b"".as_slice(), false),
        (b" \n", false),
        (b"\xef\xbb\xbf \0", false),
        // The file is cut before the root.
        (b"<?xml version=\"1.0\"?>", true),
        (b"<?xml version=\"1.0\"", true),
        (b"<?xm", true),
        (b"<", true),
        (b"<?xml version=\"1.0\"?><!-- made by", true),
        (b"<!", true),
        (b"<!DOCTYPE testsuite [<!ELEMENT testsuite", true),
        (b"<!DOCTYPE testsuite SYSTEM \"a", true),
        // Declarations before the root.
        (b"<!DOCTYPE testsuite [<!ELEMENT b (c)> <!-- ]> \" --> ] ><testsuite><a", true),
        (b"<!DOCTYPE testsuite ><testsuite><a", true),
        (b"<!DOCTYPE testsuite SYSTEM \"a>b[c\"><testsuite><a", true),
        (b"<!DOCTYPE testsuite [<!ENTITY e '<testsuite>]>'> <?p >?>]><testsuite><a", true),
        (b"<!DOCTYPE a SYSTEM \"<testsuite>\" [<!ENTITY e '<testsuite>'>] ><coverage><b", false),
        // Other content before the root.
        (b"12:00 INFO tests done\n<testsuite><testcase name=\"a\"/></testsuite>", true),
        (b"<?xml version=\"1.0\"?>\nwarning: 1 < 2\n<testsuites><a", true),
        (b"12:00 INFO done\n<coverage><b", false),
        (b"\0\0<testsuite><a", true),
        (b"\0<testsuite name=\"a\"></testsuite>", true),
        (b"\0\0\0<coverage><b", false),
        // A character of UTF-16 is cut.
        (b"\xff\xfe<\0t\0e\0s\0t\0s\0u\0i\0t\0e\0>\0<", true),
        (b"\xfe\xff\0<\0t\0e\0s\0t\0s\0u\0i\0t\0e\0>\0<\0", true),
        (b"<\0t\0e\0s\0t\0s\0u\0i\0t\0e\0s\0 \0a", true),
        (b"\xff\xfe<\0c\0o\0v\0>\0<", false),
        (b"<?xml version=\"1.0\" encoding=\"x-mac-klingon\"?><coverage/>", false),
        (b"<?xml version=\"1.0\" encoding=\"x-mac-klingon\"?><testsuite/>", true),
        (b"<coverage name=\"caf\xe9\"/>", false),
        (b"<!-- <testsuite> --><!DOCTYPE a [<!ELEMENT b>]>\n<coverage><b", false),
        (b"<!DOCTYPE a><!-- > --><t:testsuite xmlns:t=\"x\"><a", true),
        (b"<testsuites>", true),
        (b"<testsui", true),
        (b"<testsuite name=\"a", true),
        (b"<testsuitex>", false),
        (b"garbage", false),
        (b"<testsuite/><testsuite/>", true),
    ] {
        let error = read(bytes).unwrap_err();
        assert_eq!(error.may_have_suites, may_have_suites, "{:?}: {error}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn failed_tests_are_those_that_count() {
    let first = r#"<testsuite name="s" tests="2" failures="1"><testcase classname="c" name="a"><failure message="try 1"/></testcase>
        <testcase classname="c" name="a"/><testcase classname="c" name="b"><failure message="first"/></testcase></testsuite>"#;
    let second = r#"<testsuite name="t" failures="2"><testcase classname="c" name="b"><error message="worse"/></testcase>
        <testcase classname="c" name="d" status="KO"/><testcase/><testcase name="x"><skipped/><failure/></testcase></testsuite>"#;
    let files = [
        ("r/1.xml", first),
        ("r/broken.xml", "<testsuite><testcase><failure/></testcase>"),
        ("r/2.xml", second),
    ];
    let mut read = ResultFiles::default();
    let outcomes = files.map(|(path, xml)| read.add(Path::new(path), xml.as_bytes()).is_ok());
    assert_eq!(outcomes, [true, false, true]);
    let mut again = read.failed_tests(50);
    for (path, xml) in files {
        again.add(Path::new(path), xml.as_bytes());
    }
    let tests: Vec<_> =
        again.found().into_iter().map(|test| (test.name, test.is_error, test.message)).collect();
    let expected = [
        ("b", true, "worse"),
        ("d", true, "the status is \"KO\""),
        ("", true, "the test case has no name"),
        ("x", false, ""),
    ];
    assert_eq!(
        tests,
        expected.map(|(name, is_error, message)| (name.to_owned(), is_error, message.to_owned()))
    );
}
