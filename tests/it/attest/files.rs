//! Selection and validation of result files.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::attest::{FAILING, PASSING, attest, particular};
use crate::fake::{Reply, Server};

#[test]
fn files_directories_and_patterns_read_each_file_once() {
    let run = |paths: &str| {
        let program = attest("--dry-run").args(paths.split(' '));
        let program = program.file("a/TEST-one.xml", PASSING).file("a/deep/TEST-two.xml", FAILING);
        let program = program
            .file("a/[odd] name.xml", PASSING.replace("\"s\"", "\"t\""))
            .file("a/pom.xml", "<project/>")
            .file("a/notes.txt", "x");
        program.run()
    };
    for (paths, files, tests) in [
        ("a/TEST-one.xml", "1 file", "1 test: 1 passed"),
        ("a", "3 files", "4 tests: 3 passed, 1 failed"),
        ("a/**/TEST-*.xml", "2 files", "3 tests: 2 passed, 1 failed"),
        ("a/TEST-one.xml a ./a/deep a/TEST-*.xml", "3 files", "4 tests: 3 passed, 1 failed"),
        ("a/[[]odd[]]*.xml", "1 file", "1 test: 1 passed"),
    ] {
        let outcome = run(paths);
        let table = &outcome.expect(0, &[]).stdout;
        assert!(particular(table, "suites").ends_with(&format!(" in {files}")), "{paths}: {table}");
        assert_eq!(particular(table, "tests"), tests, "{paths}");
    }
    run("a")
        .expect(0, &["skipped \"a/pom.xml\": expected the root <testsuites> or <testsuite>, got <project>"]);
    for (paths, texts) in [
        ("a/pom.xml", &["failed to parse \"a/pom.xml\" as JUnit XML", "<project>"][..]),
        ("b", &["no file matches \"b\""]),
        ("**/x*.xml", &["no file matches \"**/x*.xml\""]),
        ("a/[", &["invalid pattern \"a/[\""]),
    ] {
        run(paths).expect(2, texts);
    }
    let empty = attest("--dry-run a").file("a/pom.xml", "<project/>").run();
    empty.expect(2, &["no JUnit XML file (*.xml) in directory \"a\""]);
    attest("--dry-run a")
        .file("a/notes.txt", "x")
        .run()
        .expect(2, &["no JUnit XML file (*.xml) in directory \"a\""]);
}

#[test]
fn invalid_junit_is_rejected_with_file_line_and_column() {
    let utf16: Vec<u8> = format!("\u{feff}{PASSING}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let laughs = format!("<!DOCTYPE l [<!ENTITY a \"{}\">]><testsuite>&a;</testsuite>", "ha".repeat(100));
    for (content, texts) in [
        (Vec::new(), &["failed to parse \"r.xml\" as JUnit XML", "got an empty file"][..]),
        (PASSING.as_bytes()[..40].to_vec(), &["line 1, column 21"]),
        (b"<!DOCTYPE html>\n<html></html>".to_vec(), &["line 2, column 1", "a web page"]),
        (laughs.into_bytes(), &["unsupported entity &a;"]),
        ("<testsuite>".repeat(5_000).into_bytes(), &["deeper than 256 levels"]),
        (utf16[..utf16.len() - 1].to_vec(), &["invalid UTF-16LE"]),
    ] {
        attest("--dry-run r.xml").file("r.xml", content).run().expect(2, texts);
    }
    attest("--dry-run r.xml").file("r.xml", utf16).run().expect(0, &[]);
}

#[test]
fn two_gigabyte_file_is_rejected_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.xml");
    File::create(&path).unwrap().set_len(2 << 30).unwrap();
    let outcome = attest("--dry-run").args([path.to_str().unwrap()]).run();
    outcome.expect(2, &["huge.xml\" is too large: must be at most 67108864 bytes, got at least 2147483648"]);
}

#[test]
fn special_file_is_rejected_and_skipped_in_a_directory() {
    let outcome = attest("--dry-run /dev/null").run();
    outcome.expect(2, &["failed to parse \"/dev/null\" as JUnit XML", "got an empty file"]);
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo.xml");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // A pipe in a directory is skipped.
    attest("--dry-run")
        .args([folder.path().to_str().unwrap()])
        .run()
        .expect(2, &["no JUnit XML file (*.xml) in directory"]);
}

// Other systems reject such names.
#[test]
#[cfg(target_os = "linux")]
fn symlink_cycles_are_not_followed_and_non_utf_8_names_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("d");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("a.xml"), PASSING).unwrap();
    std::fs::write(inside.join("B.XML"), PASSING.replace("\"s\"", "\"t\"")).unwrap();
    std::fs::write(inside.join(OsStr::from_bytes(b"TEST-\xff.xml")), FAILING).unwrap();
    for link in ["m", "n", "o"] {
        std::os::unix::fs::symlink(".", inside.join(link)).unwrap();
    }
    let all = "4 tests: 3 passed, 1 failed";
    for (paths, tests) in [
        ("d", all),
        ("d/*.xml", "3 tests: 2 passed, 1 failed"),
        ("**/*.[xX]*", all),
        ("./d/T*.xml", "2 tests: 1 passed, 1 failed"),
    ] {
        let run = attest("--dry-run").args([paths]).folder(folder.path()).run();
        assert_eq!(particular(&run.expect(0, &[]).stdout, "tests"), tests, "{paths}");
    }
    attest("--dry-run **/nope*.xml").folder(folder.path()).run().expect(2, &["no file matches"]);
}

#[test]
fn results_without_tests_are_not_a_success() {
    let outcome = attest("--dry-run r.xml").file("r.xml", "<testsuites/>").run();
    outcome.expect(0, &["the results contain no test and do not count as passed"]);
}

#[test]
fn other_file_in_a_directory_is_skipped_and_named_and_damaged_results_are_rejected() {
    const LATIN: &[u8] = b"<coverage><file name=\"caf\xe9\"/></coverage>";
    const MAC: &[u8] = b"<?xml version=\"1.0\" encoding=\"x-mac-unknown\"?><coverage/>";
    let run = |name: &str, content: &[u8]| {
        attest("--dry-run a").file("a/TEST-one.xml", PASSING).file(&format!("a/{name}"), content).run()
    };
    for (name, content, reason) in [
        ("x.xml", &b""[..], "expected JUnit XML, got an empty file"),
        ("x.xml", b" \n", "expected <testsuites> or <testsuite>"),
        ("x.xml", b"{}", "expected <testsuites> or <testsuite>"),
        ("x.xml", MAC, "unknown encoding \"x-mac-unknown\""),
        ("x.xml", LATIN, "expected the root <testsuites> or <testsuite>, got <coverage> (a coverage report)"),
        ("x.xml", b"<coverage><file", "expected the root <testsuites> or <testsuite>, got <coverage>"),
        ("TEST-x.xml", LATIN, "expected the root <testsuites> or <testsuite>, got <coverage>"),
    ] {
        let outcome = run(name, content);
        let outcome = outcome.expect(0, &[&format!("skipped \"a/{name}\": {reason}")]);
        assert_eq!(outcome.stderr.matches(name).count(), 1, "{}", outcome.stderr);
        assert_eq!(particular(&outcome.stdout, "tests"), "1 test: 1 passed");
    }
    for (name, content, reason) in [
        ("TEST-x.xml", &b""[..], "got an empty file"),
        ("TEST-x.xml", b"<?xml version=\"1.0\"?>\n", "expected <testsuites> or <testsuite>"),
        ("TESTS-x.xml", b"", "got an empty file"),
        ("x.xml", &PASSING.as_bytes()[..40], "line 1, column 21"),
        ("x.xml", b"<testsuites>", "the file ends inside the element that starts here"),
        ("x.xml", b"<testsui", "invalid XML"),
        ("x.xml", b"12:00 done\n<testsuite/>", "expected <testsuites> or <testsuite>"),
        ("x.xml", b"<?xml version=\"1.0\" encoding=\"x-mac-unknown\"?><testsuite/>", "unknown encoding"),
    ] {
        run(name, content).expect(2, &[&format!("failed to parse \"a/{name}\" as JUnit XML"), reason]);
    }
    let damaged =
        attest("--dry-run a --no-attachment").file("a/TEST-one.xml", PASSING).file("a/TEST-x.xml", "");
    damaged.run().expect(2, &["failed to parse \"a/TEST-x.xml\""]);
    // A file that is named on the command line is expected to have results.
    attest("--dry-run a.xml").file("a.xml", LATIN).run().expect(2, &["got <coverage>"]);
}

#[test]
fn file_of_another_kind_above_the_limit_is_skipped_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("TEST-one.xml"), PASSING).unwrap();
    let path = folder.path().join("coverage.xml");
    for (start, code, text) in [
        ("<coverage>", 0, "skipped"),
        ("<testsuite>", 2, "is too large: must be at most 67108864 bytes, got at least 2147483648"),
    ] {
        std::fs::write(&path, start).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(2 << 30).unwrap();
        let outcome = attest("--dry-run").args([folder.path().to_str().unwrap()]).run();
        outcome.expect(code, &[text, "coverage.xml"]);
    }
}

#[test]
fn decisions_are_said_in_one_line() {
    let suite = r#"<testsuite name="s" tests="3" failures="0"><testcase classname="c" name="a"/>
        <testcase classname="c" name="a"/><testcase classname="c" name="b" flaky="true"><failure/></testcase>
        <testcase classname="c" name="d" status="CANCELED"/></testsuite>"#;
    let copy = r#"<testsuite name="t" errors="1"><testcase classname="c" name="a"/></testsuite>"#;
    let attest = |options: &str| attest(options).file("a/1.xml", suite).file("a/2.xml", copy);
    let line = "1 copy in other files: not counted; 1 earlier attempt of a test: not counted; \
                1 failure excused by the totals of the suite; 1 test with the status \"CANCELED\": an error; \
                1 error declared by a suite outside of its tests";
    let outcome = attest("--dry-run a").run();
    let table = &outcome.expect(0, &[]).stdout;
    assert_eq!(particular(table, "decided"), line);
    assert_eq!(particular(table, "tests"), "4 tests: 2 passed, 2 with an error");
    let server = Server::start(|_| Reply::json(201, ""));
    attest("a").service(&server).run().expect(0, &[&format!("decided: {line}")]);
    let outcome = crate::attest::attest("--dry-run r.xml").file("r.xml", PASSING).run();
    assert_eq!(particular(&outcome.expect(0, &[]).stdout, "decided"), "-");
}
