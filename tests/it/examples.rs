//! Each example of the help and of README.md runs: in a folder with the files that they name, with a cluster
//! and a service that know what they ask for.

use serde_json::json;

use crate::fake::kube::recorded;
use crate::fake::{Reply, Seen, Server};
use crate::program::supercargo;
use crate::read::answers;

/// What runs in the examples.
const DIGEST: &str = "d2e6651c569df157e459eed7ac3eba959f1369a8907d141d3e91675ee51373f5";
const HELP_DIGEST: &str = "7c9bbe5ec9b3fb774e8fa0f54247e93c34ddf8e5d16fe3073420de0ae81a262d";

/// The lines of a text that begin with the program's name, as a shell would read them, up to a pipe.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(|line| line.trim().trim_start_matches("$ "));
    let words = lines.filter(|line| line.starts_with("supercargo ")).filter_map(shlex::split);
    let ends = |word: &String| word.starts_with(['>', '<', '|', '&', ';']);
    words.map(|words| words.into_iter().take_while(|word| !ends(word)).collect()).collect()
}

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

#[test]
fn each_example_runs() {
    let help = ["agent", "list", "get", "wait", "attest", "completions", "man"]
        .map(|command| supercargo().args([command, "--help"]).run().says(0, &[]).stdout.clone());
    let texts = help.iter().map(String::as_str).chain([include_str!("../../README.md")]);
    let said: std::collections::BTreeSet<_> = texts.flat_map(commands).collect();
    let (cluster, service) = (Server::start(recorded), Server::start(service));
    let examples =
        |name: &str| std::fs::read(format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let failing = "<testsuite><testcase/><testcase><failure/></testcase></testsuite>";
    let mut ran = 0;
    for words in said {
        let has = |word: &str| words.iter().any(|said| said == word);
        // Sentences begin with the name too. What runs until it is ended, and what wants other namespaces
        // than those that were recorded, has tests of its own.
        let ends = match words.get(1).map(String::as_str) {
            Some("agent") => has("--once") && !has("-") && !has("--namespace"),
            Some("list" | "get" | "wait" | "attest" | "completions" | "man") => true,
            _ => false,
        };
        if !ends {
            continue;
        }
        let program = supercargo().service(&service).env("KUBECONFIG", "kubeconfig").file(
            "kubeconfig",
            crate::fake::kube::kubeconfig(&cluster.url(), None, &crate::fake::kube::User::Nobody),
        );
        let program = program.file("token", "t0ken").file("examples/admin.token", "t0ken").file("header", "");
        let program = ["pods.json", "environments.yaml", "junit.xml"]
            .into_iter()
            .fold(program, |program, name| program.file(&format!("examples/{name}"), examples(name)));
        let program = program.file("pods.json", examples("pods.json"));
        let program = program.file("image-digest", DIGEST).file("old-digests", "0".repeat(64));
        let program = program.file("target/surefire-reports/TEST-a.xml", failing);
        let words: Vec<_> = words.iter().map(|word| word.replace('~', "home")).collect();
        let outcome = program.args(words.iter().skip(1).map(String::as_str)).run();
        let expected = if has("--fail-on-failures") { 9 } else { 0 };
        assert_eq!(outcome.code, expected, "{words:?} {outcome:#?}");
        assert!(!outcome.stderr.contains("panicked"));
        ran += 1;
    }
    assert!(ran > 20, "{ran}");
}
