//! Which files are meant, and what is wrong with them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use super::{FAILING, PASSING, attest, said};

#[test]
fn files_directories_and_patterns_are_read_each_file_once() {
    let run = |what: &str| {
        let program = attest("--dry-run").args(what.split(' '));
        let program = program.file("a/TEST-one.xml", PASSING).file("a/deep/TEST-two.xml", FAILING);
        let program = program
            .file("a/[odd] name.xml", PASSING)
            .file("a/pom.xml", "<project/>")
            .file("a/notes.txt", "x");
        program.run()
    };
    for (what, files, tests) in [
        ("a/TEST-one.xml", "1 file", "1 test: 1 passed"),
        ("a", "3 files", "4 tests: 3 passed, 1 failed"),
        ("a/**/TEST-*.xml", "2 files", "3 tests: 2 passed, 1 failed"),
        ("a/TEST-one.xml a ./a/deep a/TEST-*.xml", "3 files", "4 tests: 3 passed, 1 failed"),
        ("a/[[]odd[]]*.xml", "1 file", "1 test: 1 passed"),
    ] {
        let outcome = run(what);
        let table = &outcome.says(0, &[]).stdout;
        assert!(said(table, "suites").ends_with(&format!(" in {files}")), "{what}: {table}");
        assert_eq!(said(table, "tests"), tests, "{what}");
    }
    run("a").says(0, &["left out \"a/pom.xml\": the root is <project>"]);
    for (what, words) in [
        ("a/pom.xml", &["\"a/pom.xml\" is no JUnit XML", "<project>"][..]),
        ("b", &["\"b\" is no file, and as a pattern it finds none"]),
        ("**/x*.xml", &["\"**/x*.xml\" is no file"]),
        ("a/[", &["the pattern \"a/[\" cannot be used"]),
    ] {
        run(what).says(2, words);
    }
    let empty = attest("--dry-run a").file("a/pom.xml", "<project/>").run();
    empty.says(2, &["the directory \"a\" holds no file in JUnit XML"]);
    attest("--dry-run a").file("a/notes.txt", "x").run().says(2, &["\"a\" holds no file in JUnit XML"]);
}

#[test]
fn what_is_no_junit_is_refused_with_file_line_and_column() {
    let utf16: Vec<u8> = format!("\u{feff}{PASSING}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let laughs = format!("<!DOCTYPE l [<!ENTITY a \"{}\">]><testsuite>&a;</testsuite>", "ha".repeat(100));
    for (content, words) in [
        (Vec::new(), &["\"r.xml\" is no JUnit XML", "it is empty"][..]),
        (PASSING.as_bytes()[..40].to_vec(), &["line 1, column 21"]),
        (b"<!DOCTYPE html>\n<html></html>".to_vec(), &["line 2, column 1", "a web page"]),
        (laughs.into_bytes(), &["&a; is an entity of the file's own"]),
        (b"<testsuite>\n\xff</testsuite>".to_vec(), &["line 2, column 1: this is not UTF-8"]),
        ("<testsuite>".repeat(5_000).into_bytes(), &["deeper than 256 levels"]),
        (utf16[..utf16.len() - 1].to_vec(), &["not UTF-16LE"]),
    ] {
        attest("--dry-run r.xml").file("r.xml", content).run().says(2, words);
    }
    attest("--dry-run r.xml").file("r.xml", utf16).run().says(0, &[]);
}

#[test]
fn a_file_of_two_gigabytes_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.xml");
    File::create(&path).unwrap().set_len(2 << 30).unwrap();
    let outcome = attest("--dry-run").args([path.to_str().unwrap()]).run();
    outcome.says(
        2,
        &["huge.xml\" takes 2147483648 bytes or more; at most 67108864 are read of a file of results"],
    );
}

#[test]
fn what_is_no_file_is_refused_and_passed_over_in_a_directory() {
    let outcome = attest("--dry-run /dev/null").run();
    outcome.says(2, &["\"/dev/null\" is no JUnit XML", "it is empty"]);
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo.xml");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // In a directory, a pipe is passed over.
    attest("--dry-run")
        .args([folder.path().to_str().unwrap()])
        .run()
        .says(2, &["holds no file in JUnit XML"]);
}

#[test]
fn links_that_lead_back_are_not_followed_and_no_name_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("d");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("a.xml"), PASSING).unwrap();
    std::fs::write(inside.join("B.XML"), PASSING).unwrap();
    std::fs::write(inside.join(OsStr::from_bytes(b"TEST-\xff.xml")), FAILING).unwrap();
    for link in ["m", "n", "o"] {
        std::os::unix::fs::symlink(".", inside.join(link)).unwrap();
    }
    let whole = "4 tests: 3 passed, 1 failed";
    for (what, tests) in [
        ("d", whole),
        ("d/*.xml", "3 tests: 2 passed, 1 failed"),
        ("**/*.[xX]*", whole),
        ("./d/T*.xml", "2 tests: 1 passed, 1 failed"),
    ] {
        let run = attest("--dry-run").args([what]).folder(folder.path()).run();
        assert_eq!(said(&run.says(0, &[]).stdout, "tests"), tests, "{what}");
    }
    attest("--dry-run **/nope*.xml").folder(folder.path()).run().says(2, &["finds none"]);
}

#[test]
fn results_without_a_test_are_said_to_be_no_success() {
    let outcome = attest("--dry-run r.xml").file("r.xml", "<testsuites/>").run();
    outcome.says(0, &["there is no test in these results, which do not count as passed"]);
}
