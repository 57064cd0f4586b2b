//! `assert` and `policy check`.

use serde_json::{Value, json};

use crate::fake::{Reply, Server};
use crate::program::{Outcome, supercargo};
use crate::read::responses::FINGERPRINT;
use crate::service::{ADMIN, ATTESTER, Database, READER, TestService, digest, form};

fn run(server: &Server, line: &str) -> Outcome {
    supercargo().service(server).args(line.split(' ')).run()
}

/// A verdict with unknown fields.
fn verdict(is_compliant: bool) -> Value {
    let failed = json!({
        "type": "non_compliant_attestation", "rule": {"policy_name": "rules", "policy_version": 3, "number": 1},
        "flow_name": "cart", "attestation_name": "unit-tests", "text": "rules v3: in other words", "new": 1,
        "attestation": {
            "attestation_id": "1", "trail_name": "build-43", "html_url": "https://x/build-43",
            "tests": 412, "failed": 1, "failed_tests": ["PriceTest.\u{1b}[2Jrounds"],
        },
    });
    json!({
        "scope": "environment", "environment": "prod", "compliant": is_compliant, "html_url": "https://x", "new": 1,
        "artifact_name": "registry.example.com/cart:5.3.1",
        "policy_evaluations": [
            {"policy_name": "rules", "policy_version": 3, "status": "NON_COMPLIANT", "rule_evaluations": [],
             "reasons": [failed, "unit (junit) of the flow cart is missing"]},
            {"policy_name": "\u{1b}[2Jown", "policy_version": null, "status": "COMPLIANT", "reasons": []},
        ],
        "flows": [],
    })
}

#[test]
fn verdict_is_printed_with_its_reasons_in_each_format() {
    let server = Server::start(|_| Reply::json(200, verdict(false).to_string()));
    let line = format!("assert artifact --fingerprint sha256:{FINGERPRINT} --environment prod");
    let failed = run(&server, &line);
    let failed = failed.expect(10, &[&format!("not compliant: {FINGERPRINT}")]);
    assert_eq!(
        failed.stdout,
        "\
cart:5.3.1 must not run in prod:
- unit-tests failed, 1 of 412 (PriceTest.\\u{1b}[2Jrounds), trail build-43, https://x/build-43
- unit (junit) of the flow cart is missing
"
    );
    let wide = run(&server, &format!("{line} -o wide"));
    assert_eq!(
        wide.expect(10, &[]).stdout,
        "\
DIGEST        CHECK                RESULT         REASON
4f9c5e0a7b3d  policy rules v3      non-compliant  unit-tests failed, 1 of 412 (PriceTest.\\u{1b}[2Jrounds), trail build-43
4f9c5e0a7b3d  policy rules v3      non-compliant  unit (junit) of the flow cart is missing
4f9c5e0a7b3d  policy \\u{1b}[2Jown  compliant      -
"
    );
    let json: Value =
        serde_json::from_str(&run(&server, &format!("{line} -o json")).expect(10, &[]).stdout).unwrap();
    assert_eq!(json, json!([verdict(false)]));
    let yaml = run(&server, &format!("{line} -o yaml"));
    assert!(yaml.expect(10, &[]).stdout.contains("policy_name: rules"));
    let markdown = run(&server, &format!("{line} -o markdown"));
    assert_eq!(
        markdown.expect(10, &[]).stdout,
        format!(
            "\
### :x: cart:5.3.1 must not run in prod

- unit-tests failed, 1 of 412 (PriceTest.\\\\u{{1b}}\\[2Jrounds), trail build-43 ([attestation](<https://x/build-43>))
- unit (junit) of the flow cart is missing

Checked: policy rules v3, policy \\\\u{{1b}}\\[2Jown. Digest: `sha256:{FINGERPRINT}`. [Evidence](<https://x>)
"
        )
    );
    let line = format!("assert artifact --fingerprint {FINGERPRINT} --policy a,b --policy c --flow cart");
    run(&server, &line).expect(10, &[]);
    let paths: Vec<_> =
        server.requests().iter().map(|sent| format!("{}?{}", sent.path, sent.query)).collect();
    let path = format!("/api/v2/asserts/acme/fingerprint/{FINGERPRINT}?");
    assert_eq!(paths[0], format!("{path}environment_name=prod"));
    assert_eq!(paths[5], format!("{path}policy_name=a&policy_name=b&policy_name=c&flow_name=cart"));
    let server = Server::start(|_| Reply::json(200, verdict(true).to_string()));
    run(&server, &line).expect(0, &[]);
}

#[test]
fn comment_says_that_there_is_no_verdict() {
    let server =
        Server::start(|_| Reply::json(404, json!({"message": "artifact *x* not found"}).to_string()));
    let line = format!("assert artifact --fingerprint {FINGERPRINT} --environment prod");
    assert_eq!(run(&server, &line).expect(4, &["not found"]).stdout, "");
    let comment = run(&server, &format!("{line} -o markdown"));
    let comment = &comment.expect(4, &["not found"]).stdout;
    assert!(comment.starts_with("### :x: no verdict\n\n- "), "{comment}");
    assert!(comment.ends_with("artifact \\*x\\* not found\n"), "{comment}");
}

#[test]
fn several_artifacts_are_checked_and_a_policy_can_be_required() {
    let answer = json!({
        "scope": "flow", "compliant": true, "policy_evaluations": [], "flows": [
            {"flow": "cart", "trail": "t1", "compliance_status": {"status": "COMPLIANT", "attestations_statuses": [
                {"attestation_name": "unit", "status": "COMPLETE", "is_compliant": true, "unexpected": false}]}},
            {"flow": "web", "compliance_status": {"status": "NON_COMPLIANT", "attestations_statuses": [
                {"attestation_name": "e2e", "status": "MISSING", "is_compliant": false, "unexpected": false},
                {"attestation_name": "scan", "status": "COMPLETE", "is_compliant": false, "unexpected": true},
                {"attestation_name": "sbom", "status": "COMPLETE", "is_compliant": null, "unexpected": false},
                {"attestation_name": "doc", "status": "COMPLETE", "is_compliant": null, "unexpected": true}]}},
        ],
    });
    let server = Server::start(move |_| Reply::json(200, answer.to_string()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("digests");
    std::fs::write(&file, format!("{}\n# comment\n{}\n", digest('a'), digest('b'))).unwrap();
    let line = format!("assert artifact --fingerprint-file {}", file.display());
    let passed = run(&server, &line);
    let expected = ['a', 'b'].map(|digit| {
        let digits = digit.to_string().repeat(12);
        format!("{digits}… is compliant: fulfills flow cart, trail t1\n")
    });
    assert_eq!(passed.expect(0, &[]).stdout, expected.concat());
    let wide = run(&server, &format!("{line} -o wide"));
    let rows = [
        "flow cart, trail t1  compliant      -",
        "flow web             non-compliant  e2e is missing, flow web",
        "flow web             non-compliant  scan failed, flow web",
        "flow web             non-compliant  sbom has no verdict, flow web",
    ];
    assert!(rows.iter().all(|row| wide.stdout.contains(row)), "{}", wide.stdout);
    let failed = run(&server, &format!("{line} --require-policy"));
    let failed = failed.expect(10, &[&format!("not compliant: {}, {}", digest('a'), digest('b'))]);
    assert!(
        failed
            .stdout
            .contains("aaaaaaaaaaaa… is not compliant:\n- e2e is missing, flow web\n- scan failed, flow web\n- sbom has no verdict, flow web\n- no policy was checked (--require-policy)\n"),
        "{failed:?}"
    );
}

#[test]
fn artifact_without_a_verdict_does_not_pass() {
    let line = format!("assert artifact --fingerprint {FINGERPRINT} --environment prod");
    let message = json!({"message": format!("artifact \"{FINGERPRINT}\" not found")}).to_string();
    let server = Server::start(move |_| Reply::json(404, message.clone()));
    run(&server, &line).expect(4, &["once it is attested, reported or running"]);
    assert_eq!(server.requests().len(), 1);
    for (status, code) in [(400, 5), (403, 3), (404, 4), (405, 5), (501, 6)] {
        let server = Server::start(move |_| Reply::json(status, r#"{"message": "no"}"#));
        run(&server, &line).expect(code, &["no"]);
    }
    let answers = [
        ("compliant", json!("yes")),
        ("compliant", json!(null)),
        ("policy_evaluations", json!("none")),
        ("policy_evaluations", json!([null])),
        ("flows", json!(7)),
    ];
    for (field, value) in answers {
        let mut answer = verdict(true);
        answer[field] = value;
        let server = Server::start(move |_| Reply::json(200, answer.to_string()));
        run(&server, &line).expect(6, &["unexpected JSON", field]);
    }
}

#[test]
fn environment_is_asserted_by_its_snapshot() {
    let snapshot = |compliance: &str| {
        let artifact = |name: &str, compliance: &str, reasons: &[&str]| {
            json!({"name": name, "fingerprint": FINGERPRINT, "compliant": compliance == "COMPLIANT",
                   "compliance": compliance, "reasons_for_incompliance": reasons})
        };
        json!({"index": 7, "compliant": compliance == "COMPLIANT", "compliance": compliance, "warning": null, "artifacts": [
            artifact("cart:1", "COMPLIANT", &[]), artifact("web:1", "NON-COMPLIANT", &["unit is missing", "not approved"]),
            artifact("job:1", "UNKNOWN", &[])]})
    };
    for (compliance, code) in [("COMPLIANT", 0), ("NON-COMPLIANT", 10), ("UNKNOWN", 10)] {
        let answer = snapshot(compliance).to_string();
        let server = Server::start(move |_| Reply::json(200, answer.clone()));
        let outcome = run(&server, "assert environment prod");
        let message = if code == 0 {
            String::new()
        } else {
            format!("not compliant: prod is {}", compliance.to_lowercase())
        };
        let outcome = outcome.expect(code, &[&message]);
        let verdict = if code == 0 { "prod is compliant\n" } else { "" };
        assert_eq!(
            outcome.stdout.strip_suffix(verdict).unwrap(),
            "\
ARTIFACT  DIGEST        COMPLIANCE     REASON
web:1     4f9c5e0a7b3d  non-compliant  unit is missing; not approved
job:1     4f9c5e0a7b3d  unknown        -
"
        );
        run(&server, "assert environment prod#7").expect(code, &[]);
        run(&server, "assert environment prod@2w -o json").expect(code, &[]);
        let paths: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
        let expected = ["~0", "%237", "@%7B2.weeks.ago%7D"]
            .map(|expression| format!("/api/v2/snapshots/acme/prod/{expression}"));
        assert_eq!(paths, expected);
    }
    // A response of another form, or one that contradicts itself, is no verdict.
    for (field, value, code) in [("artifacts", json!("none"), 6), ("compliance", json!("UNKNOWN"), 10)] {
        let mut answer = snapshot("COMPLIANT");
        answer[field] = value;
        let server = Server::start(move |_| Reply::json(200, answer.to_string()));
        run(&server, "assert environment prod").expect(code, &[]);
    }
    let server = Server::start(|_| Reply::json(404, r#"{"message": "environment prod not found"}"#));
    run(&server, "assert environment prod").expect(4, &["not found"]);
    run(&server, "assert environment prod#").expect(2, &["expected a number of a snapshot, #N, ~N or @TIME"]);
    run(&server, "assert environment #7").expect(2, &[]);
}

#[test]
fn invalid_arguments_are_rejected_before_a_request() {
    let server = Server::start(|_| Reply::json(200, "{}"));
    for (line, text) in [
        ("assert artifact".to_owned(), "--fingerprint"),
        ("assert artifact --fingerprint abc".to_owned(), "64 hexadecimal digits"),
        ("assert artifact --fingerprint 4f9c5e0a7b3d".to_owned(), "expected all 64 digits"),
        ("approve cart 4f9c5e0a7b3d --environment prod --comment fine".to_owned(), "expected all 64 digits"),
        (
            format!("assert artifact --fingerprint {FINGERPRINT} --environment a --policy b"),
            "cannot be used with",
        ),
        (format!("assert artifact --fingerprint {FINGERPRINT} --environment a/b"), "a/b"),
        (format!("assert artifact --fingerprint {FINGERPRINT} --policy a/b"), "a/b"),
        ("policy check missing.yaml --environment prod".to_owned(), "missing.yaml"),
        ("policy check missing.yaml".to_owned(), "--environment"),
        ("policy check missing.yaml --environment prod --at yesterday".to_owned(), "2026-10-03"),
    ] {
        run(&server, &line).expect(2, &[text]);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_is_checked_attached_and_asserted_with_the_real_service() {
    use crate::service::rules::policies::{attach, policy_file, put, run as report};
    let service = TestService::start(Database::sqlite()).await;
    report(&service, "prod", "ab").await;
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'),
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t1", form(&data)).await.expect(201);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tested.yaml");
    let rules = "attestations: [{name: unit, type: junit}]";
    std::fs::write(&file, policy_file(rules)).unwrap();
    let url = service.base.clone();
    let run = move |token: &str, line: &str| {
        let program = supercargo().env("SUPERCARGO_BASE_URL", &url).env("SUPERCARGO_ORG", "acme");
        program.env("SUPERCARGO_TOKEN", token).args(line.split(' ')).run()
    };
    let program = run.clone();
    let check = format!("policy check {} --environment prod", file.display());
    tokio::task::spawn_blocking(move || {
        let effect = program(READER, &check);
        let effect =
            effect.expect(0, &["2 of 2 artifacts change; prod: unknown before, non-compliant after"]);
        assert_eq!(
            effect.stdout,
            "\
ARTIFACT     DIGEST        BEFORE   AFTER          REASON
shop/cart:b  bbbbbbbbbbbb  unknown  non-compliant  candidate v1: unit (junit) is missing
shop/cart:a  aaaaaaaaaaaa  unknown  compliant      -
"
        );
        program(ATTESTER, &check).expect(3, &["requires a token with role read or admin"]);
        program(READER, &check.replace("prod", "nowhere")).expect(4, &["environment nowhere not found"]);
        let unpoliced = format!("assert artifact --fingerprint {} --environment prod", digest('b'));
        let passed = program(READER, &unpoliced);
        assert!(passed.expect(0, &[]).stdout.contains("nothing was checked"), "{passed:?}");
        program(READER, &format!("{unpoliced} --require-policy")).expect(10, &[]);
    })
    .await
    .unwrap();
    put(&service, ADMIN, "tested", rules).await.expect(201);
    attach(&service, "prod", &["tested"]).await.expect(200);
    tokio::task::spawn_blocking(move || {
        for (digit, code, row) in [
            ('a', 0, "shop/cart:a may run in prod: fulfills policy tested v1\n"),
            ('b', 10, "shop/cart:b must not run in prod: unit (junit) is missing\n"),
        ] {
            let line = format!(
                "assert artifact --fingerprint {} --environment prod --require-policy",
                digest(digit)
            );
            let outcome = run(READER, &line);
            assert!(outcome.expect(code, &[]).stdout.contains(row), "{outcome:?}");
        }
    })
    .await
    .unwrap();
}
