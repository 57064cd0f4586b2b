use super::*;

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
