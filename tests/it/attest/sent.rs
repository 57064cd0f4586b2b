//! What is sent, and what comes of it.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::{FAILING, PASSING, attest, said};
use crate::fake::{Reply, Server};
use crate::program::TOKEN;
use crate::service::{ADMIN, Database, Running, STRANGER};

fn accepting() -> Server {
    Server::start(|_| Reply::json(201, "\"Creation Success\""))
}

/// The parts of the form that was sent: the headers and the content of each.
fn parts(server: &Server) -> Vec<(String, Vec<u8>)> {
    let seen = server.seen();
    let [seen] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/api/v2/attestations/acme/cart/trail/build-1/junit")
    );
    let kind = seen.headers["content-type"].to_str().unwrap();
    let boundary = format!("--{}", kind.split_once("boundary=").unwrap().1);
    let length: usize = seen.headers["content-length"].to_str().unwrap().parse().unwrap();
    assert_eq!(length, seen.body.len());
    let mut parts = Vec::new();
    let mut rest = &seen.body[..];
    let find =
        |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|window| window == what).unwrap();
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
fn the_data_comes_first_and_one_file_is_attached_as_it_is() {
    let server = accepting();
    let outcome = attest("r.xml").file("r.xml", PASSING).service(&server).run();
    assert_eq!(outcome.says(0, &["attested unit-tests in cart/build-1: 1 test: 1 passed"]).stdout, "");
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
fn several_files_are_attached_as_an_archive_that_is_the_same_each_time() {
    let archive = || {
        let server = accepting();
        let program = attest("a a/../b.xml").file("a/one.xml", PASSING).file("a/b/two.xml", FAILING);
        program.file("b.xml", PASSING).service(&server).run().says(0, &["4 tests: 3 passed, 1 failed"]);
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
    // None of them leaves the folder that it is unpacked in.
    let expected = [("a/b/two.xml", FAILING), ("a/one.xml", PASSING), ("b.xml", PASSING)];
    assert_eq!(files, expected.map(|(path, content)| (path.to_owned(), content.to_owned())));
    assert_eq!(packed, archive());
}

#[test]
fn another_file_or_none_is_attached_where_that_is_wanted() {
    let server = accepting();
    attest("r.xml --attachment log.txt")
        .file("r.xml", PASSING)
        .file("log.txt", "said")
        .service(&server)
        .run()
        .says(0, &[]);
    assert_eq!(parts(&server)[1].1, b"said");
    let server = accepting();
    attest("r.xml --no-attachment").file("r.xml", PASSING).service(&server).run().says(0, &[]);
    assert_eq!(parts(&server).len(), 1);
}

#[test]
fn an_attachment_above_ten_million_bytes_is_refused_before_anything_is_sent() {
    let server = accepting();
    let large = |bytes: usize| PASSING.to_owned() + &" ".repeat(bytes - PASSING.len());
    attest("r.xml").file("r.xml", large(10_000_000)).service(&server).run().says(0, &[]);
    assert_eq!(parts(&server)[1].1.len(), 10_000_000);
    server.forget();
    let hint = ["more than 10000000 bytes", "--attachment FILE", "--no-attachment"];
    attest("r.xml").file("r.xml", large(10_000_001)).service(&server).run().says(2, &hint);
    let attachment = attest("r.xml --attachment a").file("r.xml", PASSING).file("a", large(10_000_001));
    attachment.service(&server).run().says(2, &hint);
    // Packed, the same is small.
    let program = attest("r.xml s.xml").file("r.xml", large(10_000_001)).file("s.xml", PASSING);
    program.service(&server).run().says(0, &[]);
}

#[test]
fn tests_that_failed_are_attested_and_then_told_by_the_exit_code() {
    let server = accepting();
    attest("r.xml").file("r.xml", FAILING).service(&server).run().says(0, &["2 tests: 1 passed, 1 failed"]);
    server.forget();
    let outcome = attest("r.xml --fail-on-failures").file("r.xml", FAILING).service(&server).run();
    outcome.says(9, &["attested unit-tests", "the tests do not pass: 2 tests: 1 passed, 1 failed"]);
    assert_eq!(server.seen().len(), 1);
    attest("r.xml --fail-on-failures").file("r.xml", PASSING).service(&server).run().says(0, &[]);
    // Nothing that ran is nothing that passed.
    let outcome = attest("r.xml --fail-on-failures").file("r.xml", "<testsuites/>").service(&server).run();
    outcome.says(9, &["there is no test in these results", "the tests do not pass: 0 tests"]);
    // However much more suites say.
    let absurd = PASSING.replace("name=\"s\"", "failures=\"18446744073709551615\"");
    let program = attest("r.xml s.xml --fail-on-failures").file("r.xml", &absurd).file("s.xml", &absurd);
    program.service(&server).run().says(9, &["2 tests: 2 passed; 18446744073709551615 more went wrong"]);
    // Nothing was attested.
    attest("r.xml --fail-on-failures --dry-run").file("r.xml", FAILING).run().says(0, &[]);
    let refusing = Server::start(|_| Reply::json(403, r#"{"message": "no"}"#));
    let outcome = attest("r.xml --fail-on-failures").file("r.xml", FAILING).service(&refusing).run();
    outcome.says(
        3,
        &["403 Forbidden: no", "hint: the token comes from", "belongs to the organization \"acme\""],
    );
}

#[test]
fn what_is_about_no_artifact_is_warned_of_and_shown() {
    let says = "nothing tells the artifact, so no environment's policy counts this; give --fingerprint";
    for more in ["", " --target cart"] {
        let outcome = attest(&format!("r.xml --dry-run{more}")).file("r.xml", PASSING).run();
        assert_eq!(said(&outcome.says(0, &[says]).stdout, "artifact"), "-");
    }
    let fingerprint = "ab".repeat(32);
    for option in ["--fingerprint", "--target"] {
        let outcome = attest(&format!("r.xml --dry-run {option} {fingerprint}")).file("r.xml", PASSING).run();
        assert!(!outcome.says(0, &[]).stderr.contains("artifact"), "{outcome:#?}");
    }
}

#[test]
fn what_the_service_says_has_its_exit_code_and_what_may_pass_is_tried_again() {
    for (status, code, says) in [
        (401, 3, "hint: the token comes from"),
        (404, 4, "the flow \"cart\", which some services want to be created first"),
        (413, 5, "hint: fewer or smaller files"),
        (422, 5, "422 Unprocessable Entity"),
        (302, 6, "a redirect to nowhere"),
    ] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        let outcome = attest("r.xml").file("r.xml", PASSING).service(&server).run();
        assert!(!outcome.says(code, &[says]).stderr.contains(TOKEN));
    }
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Reply::json(503, "{}").with("retry-after", "1"),
        _ => Reply::json(200, ""),
    });
    attest("r.xml").file("r.xml", PASSING).service(&server).run().says(0, &["trying again in", "attested"]);
    let seen = server.seen();
    assert_eq!(seen[0].body.len(), seen[1].body.len());
    let far = Server::start(|_| Reply::json(401, "{}").with("date", "Sun, 06 Nov 1994 08:49:37 GMT"));
    let outcome = attest("r.xml").file("r.xml", PASSING).service(&far).run();
    outcome.says(3, &["and the clock of this machine: the service's is", "minutes away"]);
}

/// Against the service itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_may_be_any_of_several_is_refused_at_once() {
    let service = Running::start(Database::sqlite()).await;
    let url = service.base.clone();
    tokio::task::spawn_blocking(move || {
        let attest = |more: &str| {
            let program = attest(&format!("r.xml --repository acme/cart {more}")).file("r.xml", PASSING);
            let program = program.env("SUPERCARGO_BASE_URL", &url).env("SUPERCARGO_ORG", "acme");
            program.env("SUPERCARGO_TOKEN", ADMIN).run()
        };
        attest("--provider github").says(0, &[]);
        attest("--provider gitlab").says(0, &[]);
        attest("").says(
            5,
            &["409 Conflict", "github, gitlab", "hint: say whose repository is meant by --provider"],
        );
    })
    .await
    .unwrap();
}

/// Against the service itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_attested_is_a_compliant_trail_and_another_organization_s_token_is_told_so() {
    let service = Running::start(Database::sqlite()).await;
    let url = service.base.clone();
    tokio::task::spawn_blocking(move || {
        let attest = |content: &str, token: &str| {
            let options = format!("r.xml --commit {} --repository acme/cart", "a".repeat(40));
            let program = attest(&options).file("r.xml", content).env("SUPERCARGO_BASE_URL", &url);
            program.env("SUPERCARGO_ORG", "acme").env("SUPERCARGO_TOKEN", token).run()
        };
        attest(PASSING, ADMIN).says(0, &["attested"]);
        attest(PASSING, STRANGER)
            .says(3, &["hint: the token comes from", "belongs to the organization \"acme\""]);
    })
    .await
    .unwrap();
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!((&trail["name"], &trail["is_compliant"]), (&json!("build-1"), &json!(true)));
    assert_eq!(trail["git_commit_info"]["sha1"], "a".repeat(40));
}
