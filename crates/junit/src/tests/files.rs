use std::fmt::Write;

use encoding_rs::UTF_8;
use proptest::prelude::*;

use super::*;

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
