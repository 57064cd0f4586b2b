//! Submission of attestations: request body, attachments, exit codes and retries.

use std::io::Read;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::attest::{FAILING, PASSING, attest, particular};
use crate::fake::{Reply, Request, Server};
use crate::program::TOKEN;
use crate::service::{ADMIN, Database, STRANGER, TestService};

fn accepting_service() -> Server {
    Server::start(|_| Reply::json(201, "\"Creation Success\""))
}

/// Headers and content of each part of the form.
fn parts(server: &Server) -> Vec<(String, Vec<u8>)> {
    let requests = server.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/api/v2/attestations/acme/cart/trail/build-1/junit")
    );
    let content_type = request.headers["content-type"].to_str().unwrap();
    let boundary = format!("--{}", content_type.split_once("boundary=").unwrap().1);
    let length: usize = request.headers["content-length"].to_str().unwrap().parse().unwrap();
    assert_eq!(length, request.body.len());
    let mut parts = Vec::new();
    let mut rest = &request.body[..];
    let find =
        |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).position(|window| window == part).unwrap();
    loop {
        rest = &rest[find(rest, boundary.as_bytes()) + boundary.len()..];
        if rest.starts_with(b"--") {
            return parts;
        }
        let (head, body) = (find(rest, b"\r\n\r\n"), find(rest, format!("\r\n{boundary}").as_bytes()));
        parts.push((String::from_utf8(rest[2..head].to_vec()).unwrap(), rest[head + 4..body].to_vec()));
        rest = &rest[body..];
    }
}

#[test]
fn data_comes_first_and_a_single_file_is_attached_unchanged() {
    let server = accepting_service();
    let outcome = attest("r.xml").file("r.xml", PASSING).service(&server).run();
    assert_eq!(outcome.expect(0, &[]).stdout, "attested unit-tests in cart/build-1: 1 test: 1 passed\n");
    let parts = parts(&server);
    let [(data, json), (file, content)] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(data.contains("name=\"data_json\""), "{data}");
    let sent: Value = serde_json::from_slice(json).unwrap();
    assert_eq!(
        sent,
        json!({
            "attestation_name": "unit-tests",
            "junit_results": [{"name": "s", "failures": 0, "errors": 0, "skipped": 0, "total": 1, "duration": 0.5}],
        })
    );
    assert!(file.contains("name=\"attachment_file\"; filename=\"r.xml\""), "{file}");
    assert_eq!(content, PASSING.as_bytes());
}

#[test]
fn several_files_are_attached_as_a_reproducible_archive() {
    let other = PASSING.replace("\"s\"", "\"t\"");
    let archive = || {
        let server = accepting_service();
        let program = attest("a a/../b.xml").file("a/one.xml", PASSING).file("a/b/two.xml", FAILING);
        let program = program.file("b.xml", &other);
        program.service(&server).run().expect_result(&["4 tests: 3 passed, 1 failed"]);
        let mut parts = parts(&server);
        let (file, content) = parts.pop().unwrap();
        assert!(file.contains("filename=\"junit-results.tar.gz\""), "{file}");
        content
    };
    let packed = archive();
    let mut unpacked = tar::Archive::new(GzDecoder::new(packed.as_slice()));
    let files = unpacked.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), content)
    });
    let files: Vec<_> = files.collect();
    // No path leaves the folder in which the archive is unpacked.
    let expected = [("a/b/two.xml", FAILING), ("a/one.xml", PASSING), ("b.xml", &other)];
    assert_eq!(files, expected.map(|(path, content)| (path.to_owned(), content.to_owned())));
    assert_eq!(packed, archive());
}

#[test]
fn attachment_options_select_another_file_or_none() {
    let server = accepting_service();
    attest("r.xml --attachment log.txt")
        .file("r.xml", PASSING)
        .file("log.txt", "text")
        .service(&server)
        .run()
        .expect(0, &[]);
    assert_eq!(parts(&server)[1].1, b"text");
    let server = accepting_service();
    attest("r.xml --no-attachment").file("r.xml", PASSING).service(&server).run().expect(0, &[]);
    assert_eq!(parts(&server).len(), 1);
}

#[test]
fn results_above_ten_million_bytes_are_compressed_and_rejected_if_that_does_not_suffice() {
    let server = accepting_service();
    let large = |bytes: usize| PASSING.to_owned() + &" ".repeat(bytes - PASSING.len());
    attest("r.xml").file("r.xml", large(10_000_000)).service(&server).run().expect(0, &[]);
    assert_eq!(parts(&server)[1].1.len(), 10_000_000);
    server.clear_requests();
    attest("r.xml").file("r.xml", large(11_000_000)).service(&server).run().expect(0, &[]);
    let (header, content) = &parts(&server)[1];
    assert!(header.contains("junit-results.tar.gz"), "{header}");
    let mut archive = tar::Archive::new(GzDecoder::new(content.as_slice()));
    let entry = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!((entry.path().unwrap().to_str(), entry.size()), (Some("r.xml"), 11_000_000));
    server.clear_requests();
    let hint = ["must be at most 10000000 bytes", "--attachment FILE", "--no-attachment"];
    let attachment = attest("r.xml --attachment a").file("r.xml", PASSING).file("a", large(10_000_001));
    attachment.service(&server).run().expect(2, &hint);
    // Hexadecimal digits that a generator of random numbers wrote: compressed, they are half as long.
    let mut state = 1_u64;
    let noise: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", state >> 32)
    })
    .take(3_000_000)
    .collect();
    let with_long_output = PASSING
        .replace("/></testsuite>", &format!("><system-out>{noise}</system-out></testcase></testsuite>"));
    attest("r.xml").file("r.xml", with_long_output).service(&server).run().expect(2, &hint);
}

#[test]
fn failed_tests_are_attested_and_set_the_exit_code() {
    let server = accepting_service();
    attest("r.xml")
        .file("r.xml", FAILING)
        .service(&server)
        .run()
        .expect_result(&["2 tests: 1 passed, 1 failed"]);
    server.clear_requests();
    let outcome = attest("r.xml --fail-on-failures").file("r.xml", FAILING).service(&server).run();
    outcome.expect(9, &["not all tests passed: 2 tests: 1 passed, 1 failed"]);
    assert!(outcome.stdout.starts_with("attested unit-tests"), "{outcome:#?}");
    assert_eq!(server.requests().len(), 1);
    attest("r.xml --fail-on-failures").file("r.xml", PASSING).service(&server).run().expect(0, &[]);
    // Results without tests do not pass.
    let outcome = attest("r.xml --fail-on-failures").file("r.xml", "<testsuites/>").service(&server).run();
    outcome.expect(9, &["the results contain no test", "not all tests passed: 0 tests"]);
    // A suite may declare more failures than it has test cases.
    let absurd = PASSING.replace("name=\"s\"", "failures=\"18446744073709551615\"");
    let program = attest("r.xml --fail-on-failures").file("r.xml", &absurd);
    program
        .service(&server)
        .run()
        .expect(9, &["not all tests passed: 1001 tests: 1 passed, 1000 with an error"]);
    // A dry run attests nothing.
    attest("r.xml --fail-on-failures --dry-run").file("r.xml", FAILING).run().expect(0, &[]);
    let rejecting = Server::start(|_| Reply::json(403, r#"{"message": "no"}"#));
    let outcome = attest("r.xml --fail-on-failures").file("r.xml", FAILING).service(&rejecting).run();
    outcome.expect(
        3,
        &["403 Forbidden: no", "hint: check that the token from", "belongs to the organization \"acme\""],
    );
}

#[test]
fn retries_of_a_request_have_its_key_and_other_requests_another() {
    let keys = || {
        let failures = AtomicUsize::new(2);
        let server = Server::start(move |_| {
            let fails = failures.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            if fails { Reply::Reset } else { Reply::json(201, "\"Creation Success\"") }
        });
        attest("r.xml").file("r.xml", PASSING).service(&server).run().expect_result(&["attested unit-tests"]);
        let key = |request: &Request| request.headers["idempotency-key"].to_str().unwrap().to_owned();
        server.requests().iter().map(key).collect::<Vec<_>>()
    };
    let (first, second) = (keys(), keys());
    assert!(first.len() > 1 && first.iter().all(|key| *key == first[0] && key.len() > 16), "{first:?}");
    assert_ne!(first[0], second[0]);
}

#[test]
fn attestation_without_an_artifact_is_warned_about() {
    let expected_text = "unknown artifact: no policy counts this attestation; set --fingerprint";
    for more in ["", " --target cart"] {
        let outcome = attest(&format!("r.xml --dry-run{more}")).file("r.xml", PASSING).run();
        assert_eq!(particular(&outcome.expect(0, &[expected_text]).stdout, "artifact"), "-");
    }
    let fingerprint = "ab".repeat(32);
    for option in ["--fingerprint", "--target"] {
        let outcome = attest(&format!("r.xml --dry-run {option} {fingerprint}")).file("r.xml", PASSING).run();
        assert!(!outcome.expect(0, &[]).stderr.contains("artifact"), "{outcome:#?}");
    }
}

#[test]
fn error_status_has_an_exit_code_and_transient_errors_are_retried() {
    for (status, code, expected_text) in [
        (401, 3, "hint: check that the token from"),
        (404, 4, "some services require that a flow is created first"),
        (413, 5, "hint: send fewer or smaller files"),
        (422, 5, "422 Unprocessable Entity"),
        (302, 6, "redirect to an unknown location"),
    ] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        let outcome = attest("r.xml").file("r.xml", PASSING).service(&server).run();
        assert!(!outcome.expect(code, &[expected_text]).stderr.contains(TOKEN));
    }
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| match attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Reply::json(503, "{}").with("retry-after", "1"),
        _ => Reply::json(200, ""),
    });
    attest("r.xml")
        .file("r.xml", PASSING)
        .service(&server)
        .run()
        .expect(0, &["retrying in"])
        .expect_result(&["attested"]);
    let requests = server.requests();
    assert_eq!(requests[0].body.len(), requests[1].body.len());
    let skewed = Server::start(|_| Reply::json(401, "{}").with("date", "Sun, 06 Nov 1994 08:49:37 GMT"));
    let outcome = attest("r.xml").file("r.xml", PASSING).service(&skewed).run();
    outcome.expect(3, &["check the clock of this machine: it differs from the service's by", "minutes"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ambiguous_repository_is_rejected_without_a_retry() {
    let service = TestService::start(Database::sqlite()).await;
    let url = service.base.clone();
    tokio::task::spawn_blocking(move || {
        let attest = |more: &str| {
            let program = attest(&format!("r.xml --repository acme/cart {more}")).file("r.xml", PASSING);
            let program = program.env("SUPERCARGO_BASE_URL", &url).env("SUPERCARGO_ORG", "acme");
            program.env("SUPERCARGO_TOKEN", ADMIN).run()
        };
        attest("--provider github").expect(0, &[]);
        attest("--provider gitlab").expect(0, &[]);
        attest("").expect(
            5,
            &["400 Bad Request", "github, gitlab", "hint: set the provider of the repository by --provider"],
        );
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attestation_creates_a_compliant_trail_and_foreign_tokens_are_denied() {
    let service = TestService::start(Database::sqlite()).await;
    let url = service.base.clone();
    tokio::task::spawn_blocking(move || {
        let attest = |content: &str, token: &str| {
            let options = format!("r.xml --commit {} --repository acme/cart", "a".repeat(40));
            let program = attest(&options).file("r.xml", content).env("SUPERCARGO_BASE_URL", &url);
            program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", token).run()
        };
        attest(PASSING, ADMIN).expect_result(&["attested"]);
        attest(PASSING, STRANGER)
            .expect(3, &["hint: check that the token from", "belongs to the organization \"acme\""]);
    })
    .await
    .unwrap();
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!((&trail["name"], &trail["is_compliant"]), (&json!("build-1"), &json!(true)));
    assert_eq!(trail["git_commit_info"]["sha1"], "a".repeat(40));
}
