//! The rule of the house: a room imports itself and lower floors, and `domain` is pure.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Each room and its floor; `lib.rs` and ARCHITECTURE.md have the same table.
const FLOORS: [(&str, u8); 9] = [
    ("domain", 0),
    ("process", 1),
    ("cluster", 2),
    ("api", 2),
    ("store", 2),
    ("agent", 3),
    ("service", 3),
    ("cli", 4),
    // No part of the program.
    ("fuzzing", 5),
];

/// What `domain` may not touch: runtimes, logs, clocks, files, sockets, the environment.
const BANNED_IN_DOMAIN: [&str; 12] = [
    "tokio",
    "tracing",
    "Instant::now",
    "SystemTime::now",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::io::std",
    "jiff::Timestamp::now",
    "kube::",
];

fn floor(room: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The code of a file, without its comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// What of a file's code is in the program: nothing of one that, or whose folder, is declared for tests
/// alone.
fn outside_tests<'a>(path: &Path, code: &'a str) -> &'a str {
    let is_for_tests = |path: &Path| {
        let declared = format!("#[cfg(test)]\nmod {};", path.file_stem().unwrap().to_str().unwrap());
        fs::read_to_string(path.with_file_name("mod.rs")).is_ok_and(|folder| folder.contains(&declared))
    };
    let is_inside = path.ancestors().take_while(|ancestor| *ancestor != root()).any(is_for_tests);
    if is_inside { "" } else { code.split("#[cfg(test)]").next().unwrap() }
}

/// The rooms that a piece of code names by `crate::…`, groups included.
fn rooms_named(code: &str) -> BTreeSet<String> {
    static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bcrate::(?:\{([^;]*)\}|(\w+))").unwrap());
    static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|,)\s*(\w+)").unwrap());
    PATH.captures_iter(code)
        .flat_map(|found| match (found.get(1), found.get(2)) {
            (Some(group), _) => {
                WORD.captures_iter(group.as_str()).map(|w| w[1].to_owned()).collect::<Vec<_>>()
            }
            (None, Some(room)) => vec![room.as_str().to_owned()],
            (None, None) => vec![],
        })
        .collect()
}

#[test]
fn a_room_imports_only_itself_and_lower_floors() {
    let mut wrong = Vec::new();
    for (room, own_floor) in FLOORS {
        for path in sources(&root().join(room)) {
            for named in rooms_named(&code(&path)) {
                let is_allowed = named == room || floor(&named).is_some_and(|floor| floor < own_floor);
                if !is_allowed {
                    wrong.push(format!("{} imports {named}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_room_has_a_floor() {
    let rooms: BTreeSet<_> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "main" && name != "lib")
        .collect();
    assert_eq!(rooms, FLOORS.iter().map(|(room, _)| (*room).to_owned()).collect());
}

#[test]
fn the_domain_is_pure() {
    for path in sources(&root().join("domain")) {
        let code = code(&path);
        let outside_tests = outside_tests(&path, &code);
        for banned in BANNED_IN_DOMAIN {
            // A test has to begin at some instant, and there is no other way to come by one.
            let code = if banned == "Instant::now" { outside_tests } else { code.as_str() };
            assert!(!code.contains(banned), "{} uses {banned}", path.display());
        }
    }
}

#[test]
fn what_is_outside_tests_is_told_from_what_is_in_them() {
    let path = root().join("domain/mod.rs");
    assert_eq!(outside_tests(&path, "fn a() {}\n#[cfg(test)]\nmod tests {\n}"), "fn a() {}\n");
    assert_eq!(outside_tests(&path, "fn a() {}\n#[cfg(test)]\nmod tests;"), "fn a() {}\n");
    assert_eq!(outside_tests(&path, "fn a() {}"), "fn a() {}");
    for inside in [
        "domain/live/collapse/tests.rs",
        "domain/live/cadence/tests/mod.rs",
        "domain/live/cadence/tests/changes.rs",
    ] {
        assert_eq!(outside_tests(&root().join(inside), "fn a() {}"), "", "{inside}");
    }
}

#[test]
fn no_path_goes_round_the_rule() {
    for path in sources(&root()) {
        let code = code(&path);
        // A group of std's modules would hide one that is banned, and a long way up leads to siblings.
        for way_round in ["use std::{", "super::super", "use crate as", "extern crate"] {
            assert!(!code.contains(way_round), "{}: {way_round}", path.display());
        }
    }
}

#[test]
fn the_rule_sees_grouped_imports_and_paths_in_the_middle_of_a_line() {
    let code = "use crate::{api::Client, cluster};\nfn f() { crate::cli::x() }\npub(crate) fn g() {}";
    assert_eq!(rooms_named(code), ["api", "cli", "cluster"].map(str::to_owned).into());
}

#[test]
fn a_folder_s_mod_rs_says_what_lives_there() {
    for path in sources(&root()).into_iter().filter(|p| p.ends_with("mod.rs")) {
        let text = fs::read_to_string(&path).unwrap();
        let words =
            text.lines().take_while(|line| line.starts_with("//!")).flat_map(str::split_whitespace).count();
        assert!(words > 25, "{}", path.display());
    }
}
