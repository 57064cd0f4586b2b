//! Commands through a proxy with seeded connection faults: `list --all`, `attest`, `wait`. Each ends with the complete
//! result or the exit code of its failure.

use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::fake::proxy::{FaultKinds, Proxy};
use crate::faults::endpoint::Endpoint;
use crate::faults::run_seeds;
use crate::program::{Outcome, Program, supercargo};
use crate::service::report;
use crate::service::{ADMIN, digest, form, pod};

const SEEDS: std::ops::Range<u64> = 0..12;

/// More than one page.
const TRAILS: usize = 23;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_end_in_time_with_a_complete_result_or_an_exit_code() {
    let mut codes = Vec::new();
    for (seed, outcome) in run_seeds(SEEDS, run).await {
        codes.extend(outcome.unwrap_or_else(|| panic!("the seed {seed} failed")));
    }
    // Some commands succeed, and some fail.
    assert!(codes.contains(&0) && codes.iter().any(|code| *code != 0), "{codes:?}");
}

/// Runs a command, which must end within a minute.
async fn run_command(endpoint: &Endpoint, proxy: &Proxy, line: &str) -> Outcome {
    let ca = endpoint.folder.path().join("ca.pem");
    let program = supercargo()
        .env("SUPERCARGO_BASE_URL", &proxy.proxied_url(&endpoint.url))
        .env("SUPERCARGO_CA_FILE", ca.to_str().unwrap())
        .env("SUPERCARGO_ORG", "acme")
        .env("SUPERCARGO_TOKEN", ADMIN)
        .file("results.xml", "<testsuite name=\"s\"><testcase name=\"a\"/></testsuite>")
        .args(line.split(' '));
    let start = Instant::now();
    let outcome = tokio::task::spawn_blocking(|| Program::run(program)).await.unwrap();
    assert!(start.elapsed() < Duration::from_mins(1), "{line} took {:?}: {outcome:#?}", start.elapsed());
    assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
    outcome
}

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
    let kinds = FaultKinds { max_bytes: 60_000, delays: random.bool(), corrupts: has_tls };
    let proxy = Proxy::start(&endpoint.url, random.u64(..), kinds);

    let listed = run_command(&endpoint, &proxy, "list trails --all --per-page 10 -o json --timeout 4s").await;
    if listed.code == 0 {
        let response: Value = serde_json::from_str(&listed.stdout).unwrap();
        let trails = response.as_array().or_else(|| response["data"].as_array()).unwrap();
        assert_eq!(trails.len(), TRAILS, "{response}");
    } else {
        assert_eq!((listed.code, listed.stdout.as_str()), (6, ""), "{listed:#?}");
    }

    let waited =
        format!("wait acme/cart --environment prod --fingerprint {} --every 1s --timeout 4s", digest('a'));
    let waited = run_command(&endpoint, &proxy, &waited).await;
    assert!([0, 6, 7].contains(&waited.code), "{waited:#?}");

    let attested = "attest junit --flow cart --trail new --name unit --timeout 4s results.xml";
    let attested = run_command(&endpoint, &proxy, attested).await;
    assert!([0, 6].contains(&attested.code), "{attested:#?}");
    let sql = "SELECT a.name FROM attestations a JOIN trails t ON t.id = a.trail WHERE t.name = 'new'";
    let recorded = service.database.rows(sql).await.len();
    // Once, and once more for each lost response, as documented.
    let attempts = 1 + attested.stderr.matches("retrying").count();
    assert!(recorded <= attempts && (attested.code != 0 || recorded > 0), "{recorded}: {attested:#?}");
    vec![listed.code, waited.code, attested.code]
}
