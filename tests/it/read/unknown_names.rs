//! Names that the service does not know: each command fails at once, with the nearest names that the token may see.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::program::{Program, TOKEN, supercargo};
use crate::service::rules::policies::{UNIT, policy_file, put};
use crate::service::{ADMIN, Database, READER, REPORTER, TestService, digest, form, pod, report};

const ENVIRONMENT: &str = "environment prdo not found; did you mean prod?";
const FLOW: &str = "flow crat not found; did you mean cart?";
const REPOSITORY: &str = "did you mean acme/cart?";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_name_fails_at_once_with_the_nearest_one() {
    let service = TestService::start(Database::sqlite()).await;
    let attested = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": [],
        "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"},
    });
    service.attest(ADMIN, "cart", "build-1", form(&attested)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    put(&service, ADMIN, "rules", UNIT).await.expect(201);
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, policy_file(UNIT)).unwrap();
    let (artifact, policy) = (digest('a'), policy.display());
    for (line, expected) in [
        ("get environment prdo".to_owned(), ENVIRONMENT),
        ("get snapshot prdo~1".to_owned(), ENVIRONMENT),
        ("get access-review prdo".to_owned(), ENVIRONMENT),
        ("list agents prdo".to_owned(), ENVIRONMENT),
        ("list snapshots prdo".to_owned(), ENVIRONMENT),
        ("list events prdo".to_owned(), ENVIRONMENT),
        ("diff prod prdo".to_owned(), ENVIRONMENT),
        ("export prdo --output-file prdo.json".to_owned(), ENVIRONMENT),
        (format!("policy check {policy} --environment prdo"), ENVIRONMENT),
        ("assert environment prdo".to_owned(), ENVIRONMENT),
        (format!("assert artifact --environment prdo --fingerprint {artifact}"), ENVIRONMENT),
        (
            format!("assert artifact --policy ruels --fingerprint {artifact}"),
            "policy ruels not found; did you mean rules?",
        ),
        (format!("assert artifact --flow crat --fingerprint {artifact}"), FLOW),
        (format!("approve cart {artifact} --environment prdo"), ENVIRONMENT),
        (format!("approve crat {artifact} --environment prod"), FLOW),
        ("approval withdraw crat 1".to_owned(), FLOW),
        ("get approval crat 1".to_owned(), FLOW),
        (format!("list approvals crat {artifact}"), FLOW),
        ("get trail crat build-1".to_owned(), FLOW),
        ("list trails --flow crat".to_owned(), FLOW),
        ("list attestations crat".to_owned(), FLOW),
        ("list artifacts --flow crat".to_owned(), FLOW),
        ("list artifacts --repository acme/crat".to_owned(), REPOSITORY),
        ("get live-artifacts acme/crat".to_owned(), REPOSITORY),
        ("repository close acme/crat".to_owned(), REPOSITORY),
        ("get policy ruels".to_owned(), "policy ruels not found; did you mean rules?"),
        (format!("wait acme/crat --fingerprint {artifact}"), REPOSITORY),
        (format!("wait acme/cart --environment prdo --fingerprint {artifact}"), ENVIRONMENT),
        (format!("wait acme/cart --gone --environment prdo --fingerprint {artifact}"), ENVIRONMENT),
    ] {
        let outcome = service.program(ADMIN, &line).await;
        outcome.expect(4, &[expected]);
        assert!(!outcome.stderr.contains("base URL"), "{outcome:#?}");
    }
    // A token of role report may not see the other environments.
    service.report(ADMIN, "prod-2", report(&[])).await.expect(201);
    service.program(READER, "get environment prod-3").await.expect(4, &["prod-2"]);
    let denied = service.program(REPORTER, "get environment prod-3").await;
    assert!(!denied.expect(3, &["did you mean prod?"]).stderr.contains("prod-2"), "{denied:#?}");
    // Whether an artifact runs there is another question.
    let line = format!("wait acme/cart --environment prod --timeout 1s --fingerprint {}", digest('b'));
    service.program(READER, &line).await.expect(7, &["does not run in prod"]);
}

/// A command against a port on which nothing listens.
fn without_a_service(line: &str) -> (Program, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let program = supercargo().env("SUPERCARGO_BASE_URL", &url).env("SUPERCARGO_ORG", "acme");
    (program.env("SUPERCARGO_TOKEN", TOKEN).args(line.split(' ')), url)
}

#[test]
fn reads_without_a_service_fail_within_three_seconds() {
    for line in
        ["list environments", "get snapshot prod", "search cart", "approve cart DIGEST --environment prod"]
    {
        let (program, url) = without_a_service(&line.replace("DIGEST", &digest('a')));
        let start = Instant::now();
        let outcome = program.run();
        assert!(start.elapsed() < Duration::from_secs(3), "{line}: {:?}", start.elapsed());
        outcome.expect(6, &["Connection refused", &format!("hint: is the service running at {url}?")]);
    }
}

#[test]
fn pipeline_waits_for_a_service_that_is_starting() {
    for (line, code, message) in [
        ("assert artifact --timeout 4s --fingerprint DIGEST", 6, "gave up after"),
        ("assert environment prod --timeout 4s", 6, "gave up after"),
        ("wait acme/cart --timeout 4s --fingerprint DIGEST", 6, "timed out after 4s without a response"),
    ] {
        let (program, url) = without_a_service(&line.replace("DIGEST", &digest('a')));
        program.run().expect(code, &[message, &format!("hint: is the service running at {url}?")]);
    }
}
