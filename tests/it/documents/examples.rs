//! Each example of the help and of the documents runs: in a folder with the files that they name, with a
//! cluster and a service that know what they ask for.

use std::collections::BTreeSet;

use clap::Parser;
use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
use serde_json::json;
use supercargo::cli::Cli;

use super::{blocks, commands};
use crate::daemon::cluster::{Cluster, pod};
use crate::fake::{Reply, Seen, Server};
use crate::program::supercargo;
use crate::read::answers;

/// What runs in the examples.
const DIGEST: &str = "d2e6651c569df157e459eed7ac3eba959f1369a8907d141d3e91675ee51373f5";
const HELP_DIGEST: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

fn service(seen: &Seen) -> Reply {
    let says = |answer: serde_json::Value| Reply::json(200, answer.to_string());
    let live = |digest: &str| {
        json!({
            "live_artifacts": [{"environment_id": "e", "artifact_id": digest}],
            "_embedded": {"artifacts": [{"id": digest, "fingerprint": digest}], "environments": [{"id": "e", "name": "prod"}]},
        })
    };
    match seen.path.strip_prefix("/api/v2/").unwrap().split('/').collect::<Vec<_>>().as_slice() {
        ["trails", ..] => says(json!([answers::trail("build-42")])),
        ["attestations", _, _] => says(json!([answers::attestation("id")])),
        ["attestations" | "environments", ..] => Reply::json(201, ""),
        ["approvals", ..] => says(answers::approval()),
        ["artifacts", ..] => says(json!([answers::approval_of_artifact()])),
        ["organizations", ..] => says(json!([answers::notification()])),
        ["actions", ..] => says(answers::action()),
        ["repos", ..] => {
            let mut both = live(DIGEST);
            let other = live(HELP_DIGEST);
            both["live_artifacts"]
                .as_array_mut()
                .unwrap()
                .extend(other["live_artifacts"].as_array().unwrap().clone());
            let artifacts = other["_embedded"]["artifacts"].as_array().unwrap().clone();
            both["_embedded"]["artifacts"].as_array_mut().unwrap().extend(artifacts);
            says(both)
        }
        other => panic!("{other:?}"),
    }
}

/// The commands of the help, which stand in lines of their own.
fn of_help() -> Vec<Vec<String>> {
    let help = ["agent", "list", "get", "wait", "attest", "completions", "man"]
        .map(|command| supercargo().args([command, "--help"]).run().says(0, &[]).stdout.clone());
    let joined = help.map(|text| text.replace("\\\n", " "));
    let lines = joined.iter().flat_map(|text| text.lines()).map(str::trim);
    // Sentences begin with the name, too, and a shell reads an apostrophe as a quote.
    let lines = lines.filter(|line| line.starts_with("supercargo ") || line.contains("| supercargo "));
    lines.flat_map(commands::of_program).filter(|words| is_command(words)).collect()
}

/// It begins with a command's name.
fn is_command(words: &[String]) -> bool {
    const COMMANDS: [&str; 9] =
        ["agent", "list", "get", "wait", "attest", "serve", "demo", "completions", "man"];
    words.get(1).is_some_and(|word| COMMANDS.contains(&word.as_str()))
}

/// Whether the command line takes it.
pub fn is_understood(words: &[String]) -> Result<(), String> {
    match Cli::try_parse_from(words) {
        Err(error) if !matches!(error.kind(), DisplayHelp | DisplayVersion) => {
            Err(format!("{words:?}: {error}"))
        }
        _ => Ok(()),
    }
}

/// Whether a command is not run here, but only understood: it goes on until it is ended, and has tests of
/// its own.
fn runs_elsewhere(words: &[String]) -> bool {
    match words.get(1).map(String::as_str) {
        Some("agent") => !words.iter().any(|word| word == "--once"),
        Some("serve" | "demo") => true,
        _ => false,
    }
}

/// A cluster with a pod in each namespace that a command names, and in some others.
fn cluster(words: &[String]) -> Cluster {
    let cluster = Cluster::start();
    let named = words.iter().zip(words.iter().skip(1)).filter(|(option, _)| *option == "--namespace");
    let named: BTreeSet<_> =
        named.flat_map(|(_, value)| value.split(',')).chain(["kube-system", "default"]).collect();
    cluster.add_all(
        named.into_iter().map(|namespace| pod(namespace, "web-1").image("registry.example.com/web:1", 'a')),
    );
    cluster
}

#[test]
fn each_example_runs() {
    let shown = blocks().into_iter().filter(|block| block.language == "console");
    let shown = shown.flat_map(|block| commands::lines(&block.text));
    let said: BTreeSet<_> =
        of_help().into_iter().chain(shown.flat_map(|line| commands::of_program(&line))).collect();
    let service = Server::start(service);
    let examples =
        |name: &str| std::fs::read(format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let failing = "<testsuite><testcase/><testcase><failure/></testcase></testsuite>";
    let mut ran = 0;
    for words in said {
        is_understood(&words).unwrap_or_else(|error| panic!("{error}"));
        if runs_elsewhere(&words) {
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
        let program = program.file("image-digest", DIGEST).file("old-digests", "0".repeat(64));
        let program = program.file("target/surefire-reports/TEST-a.xml", failing);
        let outcome = program.args(words.iter().skip(1).map(String::as_str)).run();
        let expected = if words.iter().any(|word| word == "--fail-on-failures") { 9 } else { 0 };
        assert_eq!(outcome.code, expected, "{words:?} {outcome:#?}");
        assert!(!outcome.stderr.contains("panicked"));
        ran += 1;
    }
    assert!(ran > 20, "{ran}");
}
