use super::*;

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
