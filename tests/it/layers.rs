//! The layers of the sources: a module imports itself and lower layers, `domain` is pure, and no two files import each
//! other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Each top-level module and its layer; `lib.rs` and ARCHITECTURE.md have the same table.
const LAYERS: [(&str, u8); 9] = [
    ("domain", 0),
    ("process", 1),
    ("cluster", 2),
    ("api", 2),
    ("store", 2),
    ("agent", 3),
    ("service", 3),
    ("cli", 4),
    // Not part of the program.
    ("fuzzing", 5),
];

/// Imports that `domain` must not have: runtimes, logs, clocks, files, sockets, the environment.
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

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The code of a file, without its comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The code of a file that is part of the program: without test modules, and empty for a file of a test module.
fn outside_tests(path: &Path, code: &str) -> String {
    static INLINE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)#\[cfg\(test\)\]\nmod \w+ \{.*").unwrap());
    let is_for_tests = |path: &Path| {
        let declared = format!("#[cfg(test)]\nmod {};", path.file_stem().unwrap().to_str().unwrap());
        fs::read_to_string(path.with_file_name("mod.rs")).is_ok_and(|folder| folder.contains(&declared))
    };
    let is_inside = path
        .ancestors()
        .take_while(|folder| *folder != root() && folder.parent().is_some())
        .any(is_for_tests);
    if is_inside { String::new() } else { INLINE.replace(code, "").into_owned() }
}

/// The top-level modules that the code names by `crate::…`, groups included.
fn named_modules(code: &str) -> BTreeSet<String> {
    uses(code).into_iter().filter(|path| path[0] == "crate").filter_map(|path| path.get(1).cloned()).collect()
}

/// Each path in the code: of `use` declarations with their groups expanded, and inline. Re-exports are left out.
fn uses(code: &str) -> Vec<Vec<String>> {
    static USE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^\s*(pub(?:\([a-z: ]+\))? )?use ([^;]+);").unwrap());
    static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|[^\w:.])([a-z]\w*(?:::\w+)+)").unwrap());
    let declared = USE.captures_iter(code).filter(|found| found.get(1).is_none());
    let mut paths: Vec<_> = declared.flat_map(|found| expanded(&found[2])).collect();
    let rest = USE.replace_all(code, "");
    paths.extend(PATH.captures_iter(&rest).map(|found| found[2].split("::").map(str::to_owned).collect()));
    paths
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<Vec<String>> {
    let Some((prefix, group)) = tree.trim().split_once('{') else {
        let path = tree.split(" as ").next().unwrap();
        return vec![path.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in group.strip_suffix('}').unwrap_or(group).chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(letter);
        }
    }
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(&format!("{prefix}{}", part.trim()))).collect()
}

/// The files of a crate by module path, and the files whose items each of them uses.
struct Imports {
    files: BTreeMap<Vec<String>, String>,
    reexports: BTreeMap<Vec<String>, Vec<String>>,
}

impl Imports {
    fn read(root: &Path) -> Self {
        let (mut files, mut reexports) = (BTreeMap::new(), BTreeMap::new());
        for path in sources(root) {
            let relative = path.strip_prefix(root).unwrap().with_extension("");
            let mut module: Vec<String> =
                relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            let last = module.last().unwrap().as_str();
            if last == "mod"
                || (module.len() == 1 && (last == "lib" || (last == "main" && !root.ends_with("src"))))
            {
                module.pop();
            }
            let code = code(&path);
            files.insert(module, outside_tests(&path, &code));
        }
        let imports = Self { files, reexports: BTreeMap::new() };
        let declared = Regex::new(r"(?m)^\s*pub(?:\([a-z: ]+\))? use ([^;]+);").unwrap();
        for (module, code) in &imports.files {
            for path in declared.captures_iter(code).flat_map(|found| expanded(&found[1])) {
                if let Some(target) = imports.absolute(&path, module) {
                    let name = [module.as_slice(), &[path.last().unwrap().clone()]].concat();
                    reexports.insert(name, target);
                }
            }
        }
        Self { reexports, ..imports }
    }

    /// The path from the root of the crate, if it leads to a file of the crate.
    fn absolute(&self, path: &[String], module: &[String]) -> Option<Vec<String>> {
        Some(match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [module, &path[1..]].concat(),
            "super" => [&module[..module.len().saturating_sub(1)], &path[1..]].concat(),
            child if self.files.contains_key(&[module, &[child.to_owned()]].concat()) => {
                [module, path].concat()
            }
            _ => return None,
        })
    }

    /// The module whose item a path names. `None` for a module, which is no item.
    fn owner(&self, mut path: Vec<String>) -> Option<Vec<String>> {
        for _ in 0..5 {
            let Some(length) =
                (1..=path.len()).rev().find(|&length| self.reexports.contains_key(&path[..length]))
            else {
                break;
            };
            path = [self.reexports[&path[..length]].as_slice(), &path[length..]].concat();
        }
        let length = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let item = path.get(length).filter(|item| *item != "*")?;
        let code = &self.files[&path[..length]];
        (!code.contains(&format!("mod {item};"))).then(|| path[..length].to_vec())
    }

    fn of(&self, module: &[String]) -> BTreeSet<Vec<String>> {
        let paths = uses(&self.files[module]).into_iter();
        let owners = paths.filter_map(|path| self.owner(self.absolute(&path, module)?));
        owners.filter(|owner| owner != module).collect()
    }

    /// The files that reach themselves through imports.
    fn circles(&self) -> BTreeSet<String> {
        let graph: BTreeMap<_, _> = self.files.keys().map(|module| (module, self.of(module))).collect();
        let reaches_itself = |start: &Vec<String>| {
            let mut left: Vec<_> = graph[start].iter().collect();
            let mut reached = BTreeSet::new();
            while let Some(module) = left.pop() {
                if reached.insert(module) {
                    left.extend(&graph[module]);
                }
            }
            reached.contains(start)
        };
        self.files.keys().filter(|module| reaches_itself(module)).map(|module| module.join("/")).collect()
    }
}

#[test]
fn modules_import_only_themselves_and_lower_layers() {
    let mut wrong = Vec::new();
    for (module, own) in LAYERS {
        for path in sources(&root().join(module)) {
            for named in named_modules(&code(&path)) {
                if named != module && layer(&named).is_none_or(|layer| layer >= own) {
                    wrong.push(format!("{} imports {named}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_module_belongs_to_a_layer() {
    let modules: BTreeSet<_> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "main" && name != "lib")
        .collect();
    assert_eq!(modules, LAYERS.iter().map(|(module, _)| (*module).to_owned()).collect());
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    for root in [root(), benches.join("scale"), benches.join("service")] {
        let circles = Imports::read(&root).circles();
        assert!(circles.is_empty(), "files in circles below {}: {circles:#?}", root.display());
    }
}

#[test]
fn circle_is_found_through_groups_reexports_and_inline_paths() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, code: &str| fs::write(folder.path().join(name), code).unwrap();
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Third;");
    write("a.rs", "use crate::{b::Second, c};\npub struct First;");
    write("b.rs", "pub struct Second(crate::Third);");
    write("c.rs", "pub struct Third;");
    assert!(Imports::read(folder.path()).circles().is_empty());
    write("c.rs", "pub struct Third;\nfn f() -> super::a::First { super::a::First }");
    assert_eq!(Imports::read(folder.path()).circles(), ["a", "b", "c"].map(str::to_owned).into());
}

#[test]
fn live_and_evidence_do_not_import_each_other() {
    for (folder, other) in [("live", "evidence"), ("evidence", "live")] {
        for path in sources(&root().join("domain").join(folder)) {
            let code = code(&path);
            let named = uses(&outside_tests(&path, &code)).into_iter();
            let mut named =
                named.filter(|path| path.starts_with(&["crate".into(), "domain".into(), other.into()]));
            assert_eq!(named.next(), None, "{}", path.display());
        }
    }
}

/// Only the extractors of `access` parse an organization from a path, and only the guard changes verdicts.
#[test]
fn access_and_evaluation_have_one_place_each() {
    let imports = [
        ("axum::extract::Path", "service/access.rs"),
        ("axum::extract::RawPathParams", "no file"),
        ("axum::extract::OriginalUri", "no file"),
    ];
    let calls = [
        (".record_status_changes(", "service/evaluation/guard.rs"),
        (".insert_events(", "service/evaluation/guard.rs"),
        (".lock_verdicts", "service/evaluation/guard.rs"),
        (".reconcile(", "service/bootstrap/mod.rs"),
    ];
    for path in sources(&root().join("service")) {
        let code = code(&path);
        let used: BTreeSet<_> = uses(&code).into_iter().map(|path| path.join("::")).collect();
        for (import, file) in imports {
            assert!(path.ends_with(file) || !used.contains(import), "{} imports {import}", path.display());
        }
        for (call, file) in calls {
            assert!(path.ends_with(file) || !code.contains(call), "{} calls {call}", path.display());
        }
    }
    let access = uses(&code(&root().join("service/access.rs")));
    assert!(access.iter().any(|path| path.join("::") == "axum::extract::Path"), "{access:?}");
}

#[test]
fn domain_is_pure() {
    for path in sources(&root().join("domain")) {
        let code = code(&path);
        let outside_tests = outside_tests(&path, &code);
        for banned in BANNED_IN_DOMAIN {
            // A test needs an instant to start from, and only the clock provides one.
            let code = if banned == "Instant::now" { &outside_tests } else { &code };
            assert!(!code.contains(banned), "{} uses {banned}", path.display());
        }
    }
}

#[test]
fn every_interval_skips_missed_ticks() {
    static INTERVAL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"= (tokio::time::)?interval(_at)?\(").unwrap());
    for path in sources(&root()) {
        let code = code(&path);
        let intervals = INTERVAL.find_iter(&code).count();
        let delayed = code.matches("set_missed_tick_behavior(MissedTickBehavior::").count();
        assert!(intervals <= delayed, "{}: after an outage, missed ticks come in a burst", path.display());
    }
}

#[test]
fn test_modules_are_told_from_the_program() {
    let path = root().join("domain/mod.rs");
    assert_eq!(outside_tests(&path, "fn a() {}\n#[cfg(test)]\nmod tests {\n}"), "fn a() {}\n");
    let declared = "#[cfg(test)]\nmod tests;\nfn a() {}";
    assert_eq!(outside_tests(&path, declared), declared);
    assert_eq!(outside_tests(&path, "fn a() {}"), "fn a() {}");
    for inside in ["domain/live/collapse/tests.rs", "domain/live/cadence/tests/mod.rs"] {
        assert_eq!(outside_tests(&root().join(inside), "fn a() {}"), "", "{inside}");
    }
}

#[test]
fn no_import_hides_its_target() {
    for path in sources(&root()) {
        let code = code(&path);
        // A group of std's modules would hide a banned one, and a longer way up leads to siblings.
        for hidden in ["use std::{", "super::super", "use crate as", "extern crate"] {
            assert!(!code.contains(hidden), "{}: {hidden}", path.display());
        }
    }
}

#[test]
fn grouped_and_inline_imports_are_found() {
    let code = "use crate::{api::Client as Api, cluster};\nfn f() { crate::cli::x() }\npub(crate) fn g() {}";
    assert_eq!(named_modules(code), ["api", "cli", "cluster"].map(str::to_owned).into());
}

#[test]
fn each_folder_has_module_documentation() {
    for path in sources(&root()).into_iter().filter(|path| path.ends_with("mod.rs")) {
        let text = fs::read_to_string(&path).unwrap();
        let words =
            text.lines().take_while(|line| line.starts_with("//!")).flat_map(str::split_whitespace).count();
        assert!(words > 25, "{}", path.display());
    }
}
