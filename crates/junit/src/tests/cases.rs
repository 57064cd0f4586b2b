use super::*;

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
fn todo_excuses_a_failure_but_not_an_error() {
    const TODO: &str = r#"<skipped type="todo"/>"#;
    assert_decided(&[
        (&format!(r#"><testcase name="a">{TODO}<failure/></testcase>"#), "1/0/0/1", ""),
        (&format!(r#"><testcase name="a" status="failed">{TODO}</testcase>"#), "1/0/0/1", ""),
        (&format!(r#"><testcase name="a">{TODO}</testcase>"#), "1/0/0/1", ""),
        (&format!(r#"><testcase name="a">{TODO}<error/></testcase>"#), "1/0/1/0", ""),
        (&format!(r#"><testcase name="a"><error/>{TODO}<failure/></testcase>"#), "1/0/1/0", ""),
        (&format!(r#"><testcase name="a" status="crashed">{TODO}</testcase>"#), "1/0/1/0", ""),
    ]);
}

#[test]
fn child_of_a_suite_that_is_not_known_and_has_no_test_is_an_error_that_names_it() {
    let named = |name: &str| format!("1 test with the unknown element <{name}>: an error");
    assert_decided(&[
        (r#"><aborted/><testcase name="a"/>"#, "2/0/1/0", &named("aborted")),
        (r#"><testcase name="a"/><Failure message="x">text</Failure>"#, "2/0/1/0", &named("Failure")),
        (r#"><testsuite><testcase name="a"/><crash><p/></crash></testsuite>"#, "2/0/1/0", &named("p")),
        (r#"><group><part><testcase name="a"/></part></group>"#, "1/0/0/0", ""),
        (r#"><group><part/><testcase name="a"/></group>"#, "2/0/1/0", &named("part")),
        (r"><group><failure/></group>", "1/1/0/0", ""),
        (
            r#"><properties><property/></properties><testcase name="a"/><system-out><x/></system-out><system-err/><skipped/>"#,
            "1/0/0/0",
            "",
        ),
    ]);
    let of_root = decided(&[(
        "r.xml",
        r#"<testsuites><aborted/><testsuite><testcase name="a"/></testsuite></testsuites>"#,
    )]);
    assert_eq!(of_root, ("2/0/1/0".to_owned(), named("aborted")));
}

#[test]
fn attributes_count_in_any_case() {
    assert_decided(&[
        (
            r#" Errors="1"><testcase name="a"/>"#,
            "2/0/1/0",
            "1 error declared by a suite outside of its tests",
        ),
        (
            r#" FAILURES="1"><testcase name="a"/>"#,
            "2/0/1/0",
            "1 error declared by a suite outside of its tests",
        ),
        (
            r#" Tests="1"><testcase name="a"><failure/></testcase><testcase name="a"/>"#,
            "1/0/0/0",
            "1 earlier attempt of a test: not counted",
        ),
        (
            r#" errors="0" Errors="1"><testcase Name="a"/>"#,
            "2/0/1/0",
            "1 error declared by a suite outside of its tests",
        ),
        (
            r#"><testcase NAME="a"><failure/></testcase><testcase Name="a" ReRun="true"/>"#,
            "1/0/0/0",
            "1 earlier attempt of a test: not counted",
        ),
    ]);
    let timed =
        r#"<testsuite Name="s" Timestamp="2026-09-15T12:00:00Z"><testcase name="a" Time="2"/></testsuite>"#;
    assert_eq!(counted(timed), "s: 1/0/0/0 2 1789473600\n");
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
