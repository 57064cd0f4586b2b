//! What asks the service once, through a proxy that treats its connections as a seed says: `list --all`, `attest`,
//! `wait`. Each ends, with what it was asked for or with the exit code that says why not.

use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::of_each;
use crate::fake::proxy::{Kinds, Proxy};
use crate::program::{Outcome, Program, supercargo};
use crate::service::{ADMIN, digest, form, pod, report};

const SEEDS: std::ops::Range<u64> = 0..12;

/// More than a page holds.
const TRAILS: usize = 23;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_in_time_with_all_of_what_was_asked_or_says_why_not() {
    let mut did = Vec::new();
    for (seed, outcome) in of_each(SEEDS, run).await {
        did.extend(outcome.unwrap_or_else(|| panic!("the seed {seed} failed")));
    }
    // Some came through, and some did not.
    assert!(did.contains(&0) && did.iter().any(|code| *code != 0), "{did:?}");
}

/// A command that is given some seconds, and is not given more than a minute.
async fn patient(endpoint: &Endpoint, proxy: &Proxy, line: &str) -> Outcome {
    let ca = endpoint.folder.path().join("ca.pem");
    let program = supercargo()
        .env("SUPERCARGO_BASE_URL", &proxy.leads_to(&endpoint.url))
        .env("SUPERCARGO_CA_FILE", ca.to_str().unwrap())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", ADMIN)
        .file("results.xml", "<testsuite name=\"s\"><testcase/></testsuite>")
        .args(line.split(' '));
    let start = Instant::now();
    let outcome = tokio::task::spawn_blocking(|| Program::run(program)).await.unwrap();
    assert!(start.elapsed() < Duration::from_mins(1), "{line} took {:?}: {outcome:#?}", start.elapsed());
    assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
    outcome
}

/// The exit codes.
async fn run(seed: u64) -> Vec<i32> {
    let mut random = Rng::with_seed(seed);
    let has_tls = random.bool();
    let endpoint = Endpoint::start(true, has_tls).await;
    let service = endpoint.gate.service();
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    for n in 0..TRAILS {
        let data = json!({
            "attestation_name": "unit", "artifact_fingerprint": digest('a'), "repo_info": {"name": "acme/cart"},
            "junit_results": [{"name": "s", "failures": 0, "errors": 0, "total": 1}],
        });
        service.attest(ADMIN, "cart", &format!("t{n}"), form(&data)).await.expect(201);
    }
    let kinds = Kinds { most: 60_000, holds_back: random.bool(), changes: has_tls };
    let proxy = Proxy::before(&endpoint.url, random.u64(..), kinds);

    let listed = patient(&endpoint, &proxy, "list trails --all --per-page 10 -o json --timeout 4s").await;
    if listed.code == 0 {
        let answer: Value = serde_json::from_str(&listed.stdout).unwrap();
        let trails = answer.as_array().or_else(|| answer["data"].as_array()).unwrap();
        assert_eq!(trails.len(), TRAILS, "{answer}");
    } else {
        assert_eq!((listed.code, listed.stdout.as_str()), (6, ""), "{listed:#?}");
    }

    let waited =
        format!("wait acme/cart --environment prod --fingerprint {} --every 1s --timeout 4s", digest('a'));
    let waited = patient(&endpoint, &proxy, &waited).await;
    assert!([0, 6, 7].contains(&waited.code), "{waited:#?}");

    let attested = "attest junit --flow cart --trail new --name unit --timeout 4s results.xml";
    let attested = patient(&endpoint, &proxy, attested).await;
    assert!([0, 6].contains(&attested.code), "{attested:#?}");
    let sql = "SELECT a.name FROM attestations a JOIN trails t ON t.id = a.trail WHERE t.name = 'new'";
    let recorded = service.database.rows(sql).await.len();
    // Once where nothing was in doubt; and once more for each answer that was lost, as is documented.
    let tries = 1 + attested.stderr.matches("trying again").count();
    assert!(recorded <= tries && (attested.code != 0 || recorded > 0), "{recorded}: {attested:#?}");
    vec![listed.code, waited.code, attested.code]
}
