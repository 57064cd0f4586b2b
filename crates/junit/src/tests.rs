use std::fmt::Write;

use encoding_rs::UTF_8;
use proptest::prelude::*;

use super::*;
use model::Timestamp;

/// `name: total/failures/errors/skipped duration timestamp` of each result.
fn counted(xml: &str) -> String {
    let Results { results, mismatches } =
        read(xml.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    let mut output = String::new();
    for result in results {
        let JunitResult { name, failures, errors, skipped, total, duration, timestamp, .. } = result;
        write!(output, "{name}: {total}/{failures}/{errors}/{skipped}").unwrap();
        let numbers = [duration, timestamp.map(Timestamp::seconds)];
        for number in numbers {
            write!(output, " {}", number.map_or("-".to_owned(), |number| number.to_string())).unwrap();
        }
        output.push('\n');
    }
    for CountMismatch { suite, declared, counted } in mismatches {
        writeln!(output, "mismatch {suite}: {declared} > {counted}").unwrap();
    }
    output
}

fn error_of(xml: impl AsRef<[u8]>) -> String {
    read(xml.as_ref()).unwrap_err().to_string()
}

#[test]
fn test_cases_are_counted_and_only_declared_failures_are_compared() {
    for (xml, expected) in [
        (
            r#"<testsuites tests="99" failures="98" errors="97"><testsuite name="cart" tests="7" time="9" timestamp="2026-09-15T12:00:00">
                 <testcase time="0.1"/>
                 <testcase time="0.2"><failure message="a &lt; b">x &amp; y</failure><system-out>o</system-out></testcase>
                 <testcase><error/><failure/></testcase>
                 <testcase><skipped/></testcase>
               </testsuite></testsuites>"#,
            "cart: 4/1/1/1 0.3 1789473600\ntests that could not be run: 193/0/193/0 - -\n",
        ),
        // The root is a suite; inner suites are counted with the outer one.
        (
            r#"<testsuite name="all"><testcase time="1"/><testsuite name="one" timestamp="2026-09-15T12:00:00.5+02:00">
                 <testcase time="2"><skipped/></testcase><testsuite><testcase/></testsuite></testsuite></testsuite>"#,
            "all: 3/0/0/1 3 1789466400.5\n",
        ),
        // Two suites; one declares a duration that its tests do not have.
        (
            r#"<?xml version="1.0"?><!-- c --><testsuites><testsuite name="a" time="1.5"><testcase/></testsuite>
               <testsuite name="b &amp; &#99;" package="p"/></testsuites><!-- end -->"#,
            "a: 1/0/0/0 1.5 -\nb & c: 0/0/0/0 - -\n",
        ),
        // Test cases outside of suites, as Node's test runner writes them, and an unknown wrapper element.
        (
            r#"<testsuites name="r"><testcase/><testsuite name="s"><testcase/></testsuite><x><testcase><failure/></testcase></x></testsuites>"#,
            "s: 1/0/0/0 - -\nr: 2/1/0/0 - -\n",
        ),
        // A test that passed when it was retried, and one that did not.
        (
            r#"<testsuite name="s"><testcase><flakyFailure/></testcase><testcase><failure/><rerunFailure/></testcase></testsuite>"#,
            "s: 2/1/0/0 - -\n",
        ),
        // A todo test, and a test whose executable is missing.
        (
            r#"<testsuite name="s" failures="1" errors="1"><testcase><skipped type="todo"/><failure/></testcase>
               <testcase status="notrun"><skipped message="Unable to find executable"/></testcase></testsuite>"#,
            "s: 2/0/1/1 - -\n",
        ),
        // Skipped tests that are marked by an attribute.
        (
            r#"<testsuite name="s"><testcase status="run" result="completed"/><testcase status="notrun" result="suppressed"/>
               <testcase status="disabled"/><testcase status="Failed"/></testsuite>"#,
            "s: 4/1/0/2 - -\n",
        ),
        // XML in the output of a test case does not count.
        (
            r#"<testsuite name="s"><testcase><system-out><testsuite><testcase><failure/></testcase></testsuite></system-out></testcase></testsuite>"#,
            "s: 1/0/0/0 - -\n",
        ),
        (
            r#"<testsuite name="s"><testcase status="timeout"/><system-out><testcase><failure/></testcase><error/></system-out></testsuite>"#,
            "s: 1/0/1/0 - -\n",
        ),
        // Nested test cases are counted.
        (
            r#"<testsuite name="s"><testcase><testcase><failure/></testcase><testsuite><testcase><error/></testcase></testsuite></testcase></testsuite>"#,
            "s: 3/1/1/0 - -\n",
        ),
        (r#"<t:testsuite xmlns:t="urn:x" t:name="s"><t:testcase/></t:testsuite>"#, "s: 1/0/0/0 - -\n"),
        ("<testsuites/>", ""),
        ("\u{feff}<testsuite><testcase/></testsuite>\n", ": 1/0/0/0 - -\n"),
    ] {
        assert_eq!(counted(xml), expected, "{xml}");
    }
}

#[test]
fn suite_that_declares_more_failures_is_a_mismatch_and_a_suite_that_could_not_be_run_has_errors() {
    for (xml, expected) in [
        (
            r#"<testsuite name="s" failures="1" errors="1"><testcase><error/></testcase></testsuite>"#,
            "s: 1/0/1/0 - -\nmismatch s: 2 > 1\n",
        ),
        (r#"<testsuite name="s" errors="1" tests="0"/>"#, "s: 1/0/1/0 - -\nmismatch s: 1 > 0\n"),
        (r#"<testsuite name="s"><error>no such file</error><testcase/></testsuite>"#, "s: 2/0/1/0 - -\n"),
        // Surefire counts every attempt.
        (
            r#"<testsuite name="s" failures="3"><testcase><failure/><rerunFailure/></testcase><testcase><flakyFailure/></testcase></testsuite>"#,
            "s: 2/1/0/0 - -\n",
        ),
        // gotestsum declares a package that could not be built only in the root.
        (
            r#"<testsuites name="r" errors="1"><testsuite name="s" errors="0"><testcase/></testsuite></testsuites>"#,
            "s: 1/0/0/0 - -\nr: 1/0/1/0 - -\n",
        ),
        // The root also counts the mismatches of suites, once at any depth.
        (
            r#"<testsuites name="r" failures="1" errors="1"><testsuite name="s" failures="1"><testcase/></testsuite></testsuites>"#,
            "s: 1/0/0/0 - -\nr: 1/0/1/0 - -\nmismatch s: 1 > 0\n",
        ),
        (
            r#"<testsuites name="r" failures="2"><testsuite name="o" failures="1"><testsuite name="s" failures="1"><testcase/></testsuite></testsuite></testsuites>"#,
            "o: 1/0/0/0 - -\nr: 1/0/1/0 - -\nmismatch s: 1 > 0\nmismatch o: 1 > 0\n",
        ),
        (
            r#"<testsuites name="r" failures="1"><testsuite name="o"><testsuite name="s" failures="1"><testcase/></testsuite><testcase/></testsuite></testsuites>"#,
            "o: 2/0/0/0 - -\nmismatch s: 1 > 0\n",
        ),
        // A suite that could not be run is counted, up to the limit.
        (
            r#"<testsuites name="r" errors="2"><testsuite name="s" errors="1" tests="0"/></testsuites>"#,
            "s: 1/0/1/0 - -\nr: 1/0/1/0 - -\nmismatch s: 1 > 0\n",
        ),
        (
            r#"<testsuites name="r" errors="5000"><testsuite name="s" errors="5000" tests="0"/></testsuites>"#,
            "s: 1000/0/1000/0 - -\nmismatch s: 5000 > 0\n",
        ),
        (r#"<testsuite name="s" failures="x" errors="-1"><testcase/></testsuite>"#, "s: 1/0/0/0 - -\n"),
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
        ("", "-"),
    ] {
        let xml = format!(r#"<testsuite name="s"><testcase time="{time}"/></testsuite>"#);
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
            "<testsuite>\n  <testcase>\n",
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
    let utf8 = error_of(b"<testsuite>\n<testcase name=\"caf\xe9\"/></testsuite>");
    assert_eq!(utf8, "line 2, column 20: invalid UTF-8, the encoding of the file");
}

#[test]
fn entity_expansion_attack_is_rejected() {
    let mut xml = "<!DOCTYPE l [<!ENTITY l0 \"<testcase/>\">".to_owned();
    (1..10).for_each(|n| write!(xml, "<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10)).unwrap());
    xml.push_str("]><testsuite name=\"s\"><testcase/></testsuite>");
    assert_eq!(counted(&xml), "s: 1/0/0/0 - -\n");
    let laughing = xml.replace("</testsuite>", "&l9;</testsuite>");
    assert!(error_of(&laughing).contains("unsupported entity &l9;"));
}

#[test]
fn deep_nesting_is_rejected_and_many_tests_are_counted() {
    let nested = |deep| format!("{}<testcase/>{}", "<testsuite>".repeat(deep), "</testsuite>".repeat(deep));
    assert_eq!(counted(&nested(255)), ": 1/0/0/0 - -\n");
    assert!(error_of(nested(5_000)).ends_with("elements are nested deeper than 256 levels"));
    let many =
        format!("<testsuite>{}</testsuite>", "<testcase time=\"1\"><failure/></testcase>".repeat(20_000));
    assert_eq!(counted(&many), ": 20000/20000/0/0 20000 -\n");
    let wide = format!("<testsuite {}/>", "a=\"\" ".repeat(200_000));
    assert_eq!(counted(&wide), ": 0/0/0/0 - -\n");
}

#[test]
fn number_of_results_is_bounded_and_every_test_is_counted() {
    let many = format!(
        "<testsuites>{}</testsuites>",
        "<testsuite name=\"s\"><testcase time=\"1e9\"/></testsuite>".repeat(5_000)
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
            "<?xml version='1.0' encoding = '{encoding}' ?><testsuite name=\"café\"><testcase/></testsuite>"
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
            Just("</testsuite>"), Just("<testcase time=\"-0\">"), Just("</testcase>"), Just("<failure/>"),
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
