//! Selection and validation of result files.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::attest::{FAILING, PASSING, attest, particular};

#[test]
fn files_directories_and_patterns_read_each_file_once() {
    let run = |paths: &str| {
        let program = attest("--dry-run").args(paths.split(' '));
        let program = program.file("a/TEST-one.xml", PASSING).file("a/deep/TEST-two.xml", FAILING);
        let program = program
            .file("a/[odd] name.xml", PASSING)
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
        (b"<testsuite>\n\xff</testsuite>".to_vec(), &["line 2, column 1: invalid UTF-8"]),
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
    std::fs::write(inside.join("B.XML"), PASSING).unwrap();
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
