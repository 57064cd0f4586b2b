//! Checks of the documents: versions, languages of fenced blocks, the program's commands, files that only the
//! program reads, and database queries. `.ci/documents.py` checks links, and validates what other programs read.

pub(crate) mod blocks;
mod commands;
mod examples;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::documents::blocks::{Block, blocks, pages};
use crate::program::once;
use crate::service::{ADMIN, Database, Options, Response, TestService, pod, report};

/// Languages of blocks.
const LANGUAGES: [&str; 6] = ["console", "yaml", "json", "python", "sql", "text"];

#[test]
fn every_block_has_a_known_language() {
    let pages: BTreeSet<_> = blocks().into_iter().map(|block| block.page).collect();
    assert!(pages.len() >= 3, "{pages:?}");
    let unknown = blocks().into_iter().filter(|block| !LANGUAGES.contains(&block.language.as_str()));
    let unknown: Vec<_> =
        unknown.map(|block| format!("{}: \"{}\"", block.position(), block.language)).collect();
    assert!(unknown.is_empty(), "expected one of {LANGUAGES:?}, got {unknown:#?}");
    for block in blocks().into_iter().filter(|block| block.language == "console") {
        assert!(!commands::lines(&block.text).is_empty(), "{}: no line begins with $", block.position());
    }
}

/// What a pattern finds in all documents, with the page.
fn found(pattern: &str) -> Vec<(PathBuf, String)> {
    let pattern = Regex::new(pattern).unwrap();
    let found = pages().into_iter().flat_map(|page| {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&page)).unwrap();
        let found = pattern.captures_iter(&text).map(|found| found[1].to_owned());
        found.map(|found| (page.clone(), found)).collect::<Vec<_>>()
    });
    found.collect()
}

#[test]
fn versions_are_of_this_program() {
    let versions = found(
        r"(?:ghcr\.io/supercargo/[\w/]+:|\?ref=v|refs/tags/v|--version |supercargo[- ])(\d+\.\d+\.\d+)",
    );
    assert!(!versions.is_empty());
    for (page, version) in versions {
        assert_eq!(version, env!("CARGO_PKG_VERSION"), "{}", page.display());
    }
}

#[tokio::test]
async fn retention_lists_every_table_of_the_database() {
    let database = TestService::start(Database::sqlite()).await.stop().await;
    let tables =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let tables = database.rows(tables).await;
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guides/operating.md")).unwrap();
    let (_, table) = page.split_once("\n| table | rows are removed |\n").unwrap();
    let mut listed: Vec<_> = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2))
        .collect();
    listed.sort_unstable();
    assert_eq!(
        listed, tables,
        "tables in docs/guides/operating.md#retention, and the tables of the database"
    );
}

fn yaml(block: &Block) -> Vec<Value> {
    let read = serde_saphyr::from_multiple(&block.text);
    read.unwrap_or_else(|error| panic!("{}: {error}", block.position()))
}

/// A file that the documents link to, as a block.
fn example(path: &str) -> Block {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    Block { page: path.into(), line: 1, language: "yaml".into(), text }
}

fn blocks_in(language: &str) -> impl Iterator<Item = Block> {
    blocks().into_iter().filter(move |block| block.language == language)
}

#[test]
fn environments_files_are_valid() {
    let pods = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/pods.json")).unwrap();
    let mut read = 0;
    for block in blocks_in("yaml") {
        let is_file = |document: &Value| {
            document.as_object().is_some_and(|keys| keys.keys().map(String::as_str).eq(["environments"]))
        };
        if !block.text.starts_with("# environments.yaml") && !yaml(&block).iter().any(is_file) {
            continue;
        }
        let program = once().file("environments.yaml", &block.text).file("pods.json", &pods);
        let outcome =
            program.args(["--dry-run", "--config", "environments.yaml", "--pods-from", "pods.json"]).run();
        // Exit code 8: a namespace is missing in the example.
        assert!([0, 8].contains(&outcome.code), "{}: {outcome:#?}", block.position());
        read += 1;
    }
    assert!(read > 0);
}

/// A documented token or issuer that reports an environment must work as it stands.
#[test]
fn documented_reporters_report_environments_that_exist_or_that_they_create() {
    fn check(organization: &Value, position: &str) -> usize {
        let list = |value: &'static str| organization[value].as_array().into_iter().flatten();
        let declared: Vec<_> = list("environments").map(|environment| &environment["name"]).collect();
        let rules = list("issuers").flat_map(|issuer| issuer["rules"].as_array().into_iter().flatten());
        let reporters = list("tokens").chain(rules).filter(|reporter| reporter["role"] == "report");
        let reporters = reporters.filter(|reporter| reporter["create"] != true);
        let reported = reporters.flat_map(|reporter| reporter["environments"].as_array().unwrap());
        let reported: Vec<_> = reported.filter(|name| **name != "*").collect();
        for name in &reported {
            assert!(declared.contains(name), "{position}: {name} is neither declared nor created");
        }
        reported.len()
    }
    let mut checked = 0;
    for block in blocks_in("yaml") {
        for document in yaml(&block) {
            for file in [&document, &document["service"]["bootstrap"]] {
                let organizations = file["organizations"].as_array().into_iter().flatten();
                checked += organizations.map(|one| check(one, &block.position())).sum::<usize>();
            }
        }
    }
    assert!(checked > 3, "{checked}");
}

/// The bootstrap files of the chart's values, as they stand, with the tokens that their files name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_service_of_the_chart_accepts_reports_of_its_agent() {
    let mut reported = 0;
    let install = blocks_in("yaml").filter(|block| block.page.ends_with("docs/guides/install.md"));
    for block in install.chain([example("examples/all-in-one.yaml")]) {
        let file = yaml(&block).into_iter().map(|values| values["service"]["bootstrap"].clone());
        let Some(file) = file.into_iter().find(Value::is_object) else { continue };
        let tokens: Vec<_> = file["organizations"][0]["tokens"].as_array().unwrap().clone();
        let secret = |token: &Value| format!("{}-0123456789abcdef", token["name"].as_str().unwrap());
        let name = |token: &Value| -> &'static str { token["file"].as_str().unwrap().to_owned().leak() };
        let files = tokens.iter().map(|token| (name(token), secret(token))).collect();
        let options = Options { bootstrap: file.to_string(), files, ..Options::default() };
        let service = TestService::start_with(Database::sqlite(), options).await;
        for token in tokens.iter().filter(|token| token["role"] == "report") {
            for environment in token["environments"].as_array().unwrap() {
                let sent = report(&[pod("cart-1", "registry.example.com/cart:1", 'a')]);
                let answer = service.report(&secret(token), environment.as_str().unwrap(), sent).await;
                assert_eq!(answer.status, 201, "{}: {}", block.position(), answer.text);
                reported += 1;
            }
        }
    }
    assert!(reported >= 3, "{reported}");
}

/// Flow templates and policies, which only the service reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_and_policies_are_accepted_by_the_service() {
    let service = TestService::start(Database::sqlite()).await;
    let mut accepted = BTreeSet::new();
    for block in blocks_in("yaml") {
        let documents = yaml(&block);
        let has = |key: &str| documents.iter().any(|document| document.get(key).is_some());
        let (path, data, file) = match (has("_schema"), has("trail")) {
            (true, _) => ("/policies/acme", "payload", "policy_file"),
            (_, true) => ("/flows/acme/template_file", "data_json", "template_file"),
            _ => continue,
        };
        let description = json!({"name": "documented", "description": ""}).to_string();
        let part = Part::text(block.text.clone()).file_name("file.yaml");
        let form = Form::new().text(data, description).part(file, part);
        let request = service.request(Method::PUT, ADMIN, path).multipart(form);
        let response = Response::from_request(request).await;
        assert!(response.status.is_success(), "{}: {response:?}", block.position());
        accepted.insert(file);
    }
    assert_eq!(accepted, BTreeSet::from(["policy_file", "template_file"]));
}

/// Commands in workflow steps and container arguments.
#[test]
fn commands_in_yaml_are_valid() {
    fn commands(value: &Value) -> Vec<Vec<String>> {
        let script = value["script"].as_array().and_then(|lines| lines.first());
        let script = value["run"].as_str().or(value["command"].as_str()).or(script.and_then(Value::as_str));
        let own = match (script, value["image"].as_str(), value["args"].as_array()) {
            (Some(script), ..) => commands::program_commands(script),
            (None, Some(image), Some(args)) if image.contains("/supercargo:") => {
                let args = args.iter().map(|arg| arg.as_str().unwrap().to_owned());
                vec![std::iter::once("supercargo".to_owned()).chain(args).collect()]
            }
            _ => Vec::new(),
        };
        let inner: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(entries) => entries.values().collect(),
            _ => Vec::new(),
        };
        own.into_iter().chain(inner.into_iter().flat_map(commands)).collect()
    }
    for block in blocks_in("yaml").chain([example("examples/cronjob/cronjob.yaml")]) {
        for words in yaml(&block).iter().flat_map(commands) {
            // The value of a variable.
            let value = |word: String| if word.starts_with('$') { "value".to_owned() } else { word };
            let words: Vec<_> = words.into_iter().map(value).collect();
            examples::parse(&words).unwrap_or_else(|error| panic!("{}: {error}", block.position()));
        }
    }
}

#[test]
fn json_is_valid() {
    for block in blocks_in("json") {
        let read = serde_json::from_str::<Value>(&block.text);
        assert!(read.is_ok(), "{}: {read:?}", block.position());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_queries_are_valid() {
    let service = TestService::start(Database::sqlite()).await;
    for block in blocks_in("sql") {
        service.database.execute(&block.text).await;
    }
    service.stop().await;
}
