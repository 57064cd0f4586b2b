//! Runs each example of the documents and help texts, with the files, cluster and service that it needs.

use std::collections::BTreeSet;

use clap::Parser;
use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
use model::envelope::{Envelope, RUNNING_ARTIFACTS, STATEMENT, STATEMENT_V1};
use model::log::checkpoint::Checkpoint;
use model::log::verification::RecordedEntry;
use model::log::{Head, Kind, NewEntry, record_hash, start_record};
use runtime::signing::SigningKey;
use serde_json::json;
use supercargo::cli::Cli;

use crate::daemon::support::cluster::{Cluster, pod};
use crate::documents::{blocks, commands};
use crate::fake::{Reply, Request, Server};
use crate::program::supercargo;
use crate::read::responses;
use crate::service::records::log::{KEY, PUBLIC_KEY};

/// Digest of the running artifact in the documents.
const DIGEST: &str = "d2e6651c569df157e459eed7ac3eba959f1369a8907d141d3e91675ee51373f5";
const HELP_DIGEST: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

/// The only page of a log with one entry.
fn log() -> serde_json::Value {
    let (mut head, record) = (Head::EMPTY, start_record("acme"));
    let record_hash = record_hash(&record);
    let entry = head.append(NewEntry { at: 0, kind: Kind::Start, id: "acme".into(), record_hash });
    let entry = RecordedEntry { entry, record: Some(record), is_attachment_removed: false };
    let checkpoint = Checkpoint { origin: "example.com/acme".into(), head }.to_string();
    json!({"entries": [entry], "checkpoint": checkpoint, "rows": {}})
}

/// A signed statement.
fn statement() -> Envelope {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let payload = json!({ "_type": STATEMENT_V1, "predicateType": RUNNING_ARTIFACTS }).to_string();
    SigningKey::read(&key).unwrap().sign_envelope(STATEMENT, payload.as_bytes()).unwrap()
}

fn service(request: &Request) -> Reply {
    let ok = |response: serde_json::Value| Reply::json(200, response.to_string());
    let live = |digest: &str| {
        json!({
            "live_artifacts": [{"environment_id": "e", "artifact_id": digest}],
            "_embedded": {"artifacts": [{"id": digest, "fingerprint": digest}], "environments": [{"id": "e", "name": "prod"}]},
        })
    };
    match request.path.strip_prefix("/api/v2/").unwrap().split('/').collect::<Vec<_>>().as_slice() {
        ["trails", ..] => ok(json!([responses::trail("build-42")])),
        ["attestations", _, _] => ok(json!([responses::attestation("id")])),
        ["environments", _, _, "access-review"] => ok(json!({"requirements": [], "alternatives": []})),
        ["environments", _] => ok(json!([{"name": "prod"}])),
        ["environments", _, _] if request.method == "GET" => ok(json!({"name": "prod"})),
        ["environments", _, _, "events"] | ["snapshots", _, _] => ok(json!([{"index": 1}])),
        ["snapshots", .., "statement"] => ok(serde_json::to_value(statement()).unwrap()),
        ["attachments", ..] => Reply::text(200, "")
            .with("content-disposition", "attachment")
            .with("repr-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"),
        ["snapshots", ..] => ok(json!({"index": 1, "artifacts": []})),
        ["env-diff", _] => {
            let none = json!({"artifacts": []});
            ok(json!({"snappish1": none, "snappish2": none, "changed": none, "not-changed": none}))
        }
        ["attestations" | "environments", ..] => Reply::json(201, ""),
        ["digests" | "packages", _] => ok(json!({"data": [], "next": null})),
        ["approvals", ..] => ok(responses::approval()),
        ["artifacts", ..] => ok(json!([responses::artifact_approval()])),
        ["organizations", ..] => ok(json!([responses::notification()])),
        ["actions", .., "test"] => ok(json!([{"name": "chat", "is_delivered": true}])),
        ["actions", ..] => ok(responses::action()),
        ["asserts", ..] => ok(json!({"compliant": true})),
        ["policies", _, "check"] => ok(json!({
            "before": "COMPLIANT", "after": "COMPLIANT", "artifacts_total": 0, "changed_total": 0, "artifacts": [],
        })),
        ["tokens", _] if request.method == "GET" => ok(json!([{"name": "ci"}])),
        ["tokens", ..] => ok(json!({"name": "ci", "token": "secret"})),
        ["log", ..] => ok(log()),
        ["repos", ..] => {
            let mut both = live(DIGEST);
            let other = live(HELP_DIGEST);
            both["live_artifacts"]
                .as_array_mut()
                .unwrap()
                .extend(other["live_artifacts"].as_array().unwrap().clone());
            let artifacts = other["_embedded"]["artifacts"].as_array().unwrap().clone();
            both["_embedded"]["artifacts"].as_array_mut().unwrap().extend(artifacts);
            ok(both)
        }
        other => panic!("{other:?}"),
    }
}

/// The commands in help texts, each on its own line.
fn help_commands() -> Vec<Vec<String>> {
    let help = ["agent", "list", "get", "wait", "attest", "completions", "man"]
        .map(|command| supercargo().args([command, "--help"]).run().expect(0, &[]).stdout.clone());
    let joined = help.map(|text| text.replace("\\\n", " "));
    let lines = joined.iter().flat_map(|text| text.lines()).map(str::trim);
    // Some sentences also start with the name, and their apostrophes are not shell quotes.
    let lines = lines.filter(|line| line.starts_with("supercargo ") || line.contains("| supercargo "));
    lines.flat_map(commands::program_commands).filter(|words| is_command(words)).collect()
}

/// Whether the words start with a command.
fn is_command(words: &[String]) -> bool {
    const COMMANDS: [&str; 9] =
        ["agent", "list", "get", "wait", "attest", "serve", "demo", "completions", "man"];
    words.get(1).is_some_and(|word| COMMANDS.contains(&word.as_str()))
}

/// Parses a command line.
pub fn parse(words: &[String]) -> Result<(), String> {
    match Cli::try_parse_from(words) {
        Err(error) if !matches!(error.kind(), DisplayHelp | DisplayVersion) => {
            Err(format!("{words:?}: {error}"))
        }
        _ => Ok(()),
    }
}

/// Whether the command is only parsed here, since it runs until it is stopped. Other tests run it.
fn is_long_running(words: &[String]) -> bool {
    match words.get(1).map(String::as_str) {
        Some("agent") => !words.iter().any(|word| word == "--once"),
        Some("serve" | "demo") => true,
        _ => false,
    }
}

/// A cluster with a pod in each named namespace and some others, one of them with labels.
fn cluster(words: &[String]) -> Cluster {
    let cluster = Cluster::start();
    let named = words.iter().zip(words.iter().skip(1)).filter(|(option, _)| *option == "--namespace");
    let named: BTreeSet<_> =
        named.flat_map(|(_, value)| value.split(',')).chain(["kube-system", "default"]).collect();
    cluster.add_all(
        named.into_iter().map(|namespace| pod(namespace, "web-1").image("registry.example.com/web:1", 'a')),
    );
    cluster.label_namespace("default", &["team=a", "env=prod"]);
    cluster
}

#[test]
fn examples_run() {
    let lines = blocks().into_iter().filter(|block| block.language == "console");
    let lines = lines.flat_map(|block| commands::lines(&block.text));
    let all: BTreeSet<_> =
        help_commands().into_iter().chain(lines.flat_map(|line| commands::program_commands(&line))).collect();
    let service = Server::start(service);
    let examples =
        |name: &str| std::fs::read(format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let failing = "<testsuite><testcase name=\"a\"/><testcase name=\"b\"><failure/></testcase></testsuite>";
    let mut ran = 0;
    for words in all {
        parse(&words).unwrap_or_else(|error| panic!("{error}"));
        if is_long_running(&words) {
            continue;
        }
        let cluster = cluster(&words);
        let program = supercargo().service(&service).env("KUBECONFIG", "kubeconfig");
        let program = program.file("kubeconfig", cluster.kubeconfig()).stdin(examples("pods.json"));
        let program = program.file("token", "t0ken").file("examples/admin.token", "t0ken");
        let program = ["pods.json", "environments.yaml", "junit.xml"]
            .into_iter()
            .fold(program, |program, name| program.file(&format!("examples/{name}"), examples(name)));
        let program = program.file("pods.json", examples("pods.json"));
        // Of the demo's folder.
        let program = program.file("storefront-untested.json", examples("pods.json"));
        let program = program.file("web-1.5.0.xml", examples("junit.xml"));
        let page = log();
        let end = json!({"checkpoint": page["checkpoint"]});
        let program = program.file("checkpoint", page["checkpoint"].as_str().unwrap());
        let statement = serde_json::to_string(&statement()).unwrap();
        // Commands keep existing files.
        let program = if words.iter().any(|word| word == "--output-file") {
            program
        } else {
            let log = format!("{}\n{end}\n", page["entries"][0]);
            program.file("acme.jsonl", log).file("prod.json", statement)
        };
        let program = program.file("signing.pub", PUBLIC_KEY);
        let program = program.file("image-digest", DIGEST).file("old-digests", "0".repeat(64));
        let program = program.file("strict.yaml", "a policy").file("bom.json", "{}");
        let program = program.file("provenance.sigstore.json", r#"{"messageSignature": {}}"#);
        let program = program.file("target/surefire-reports/TEST-a.xml", failing);
        let outcome = program.args(words.iter().skip(1).map(String::as_str)).run();
        let expected = if words.iter().any(|word| word == "--fail-on-failures") { 9 } else { 0 };
        assert_eq!(outcome.code, expected, "{words:?} {outcome:#?}");
        assert!(!outcome.stderr.contains("panicked"));
        ran += 1;
    }
    assert!(ran > 20, "{ran}");
}
