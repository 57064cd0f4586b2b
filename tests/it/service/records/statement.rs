//! Exported statements, by operation and command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use runtime::signing::SigningKey;
use serde_json::{Value, json};
use service::Limits;
use tempfile::TempDir;

use crate::program::{Outcome, supercargo};
use crate::service::bootstrap;
use crate::service::records::log::{KEY, OTHER_KEY, PUBLIC_KEY};
use crate::service::report;
use crate::service::rules::policies::{attach, put, run};
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, REPORTER, STRANGER, TestService, digest, form, pod,
};

/// The public key is [`OTHER_KEY`].
const P256_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+48Bu32Hh+Cl94Ah\nQMWz/OPemgg2N3Mzh6keTs7vBKehRANCAATD16ycWlg7A5PyniTWeqm/fz3ymdsE\nF9r2/4xB2HFpTp31e6Z0BdM7uliBtltIqWQ1qfy1L8zHAcWbyktK2UtS\n-----END PRIVATE KEY-----\n";

/// A folder with keys.
fn keys() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, key) in [("key", KEY), ("public", PUBLIC_KEY), ("other", OTHER_KEY), ("p256", P256_KEY)] {
        std::fs::write(folder.path().join(name), key).unwrap();
    }
    folder
}

fn options(signing_key: PathBuf) -> Options {
    let policy = "    environments: [{name: prod, policy: {attestations: [{flow: cart, name: unit}]}}]\n";
    Options { signing_key: Some(signing_key), bootstrap: bootstrap(1, policy), ..Options::default() }
}

/// Runs the program in a folder, without a service.
async fn offline(folder: &Path, line: &str) -> Outcome {
    let program = supercargo().folder(folder).args(line.split(' '));
    tokio::task::spawn_blocking(|| program.run()).await.unwrap()
}

async fn attest(service: &TestService, digit: char) {
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest(digit),
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
        "git_commit_info": {"sha1": "4".repeat(40)}, "repo_info": {"name": "acme/cart"},
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

async fn statement_has_what_ran_with_verdicts_and_the_policies_of_that_time(database: Database) {
    let folder = keys();
    let service = TestService::start_with(database, options(folder.path().join("key"))).await;
    attest(&service, 'a').await;
    put(&service, ADMIN, "rules", "provenance: {required: true}").await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    run(&service, "prod", "a").await;
    put(&service, ADMIN, "rules", "provenance: {required: false}").await.expect(200);
    run(&service, "prod", "ab").await;
    let mut policies = Vec::new();
    for (number, expression, compliance) in [(1, "prod#1", "compliant"), (2, "prod", "non-compliant")] {
        let file = folder.path().join("statement");
        _ = std::fs::remove_file(&file);
        let line = format!("export {expression} --output-file {}", file.display());
        service.program(READER, &line).await.expect(0, &["exported prod"]);
        service.program(READER, &line).await.expect(2, &["statement\" exists: remove it"]);
        let verified = offline(folder.path(), "verify statement --key public -o json").await;
        let message = format!(
            "the signature is valid: {} states that snapshot {number} of prod in acme is {compliance} as of 20",
            service.base
        );
        let version = format!("policy rules, version {number}, sha256:");
        verified.expect(0, &[&message, &version, "policy environment:prod, version 1, sha256:"]);
        let statement: Value = serde_json::from_str(&verified.stdout).unwrap();
        assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
        let subject = json!({"name": "shop/cart:a", "digest": {"sha256": digest('a')}});
        assert_eq!(statement["subject"][0], subject);
        let predicate = &statement["predicate"];
        assert_eq!((&predicate["isComplete"], &predicate["warning"]), (&json!(true), &json!(null)));
        let artifact = &predicate["artifacts"][0];
        assert_eq!(artifact["digest"], subject["digest"]);
        assert_eq!(
            [&artifact["compliance"], &artifact["flow"], &artifact["commit"], &artifact["pods"]],
            [&json!("COMPLIANT"), &json!("cart"), &json!("4".repeat(40)), &json!(1)]
        );
        policies.push(predicate["policies"].clone());
    }
    assert_eq!(policies[0][0], policies[1][0]);
    assert_ne!(policies[0][1]["digest"], policies[1][1]["digest"]);
    let table = offline(folder.path(), "verify statement --key public").await;
    assert_eq!(
        table.expect(0, &[]).stdout,
        "\
ARTIFACT     DIGEST        FLOW  COMMIT   COMPLIANCE     PODS  REASONS
shop/cart:a  aaaaaaaaaaaa  cart  4444444  compliant      1     -
shop/cart:b  bbbbbbbbbbbb  -     -        non-compliant  1     environment:prod v1: unit of the flow cart is missing
"
    );
}

async fn file_that_cannot_be_written_is_exit_code_2_and_an_existing_one_is_kept(database: Database) {
    let folder = keys();
    let service = TestService::start_with(database, options(folder.path().join("key"))).await;
    run(&service, "prod", "a").await;
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "mine").unwrap();
    for command in ["export prod", "log export"] {
        for (file, says) in [
            (taken.to_str().unwrap(), "taken\" exists: remove it, or name another one"),
            ("/nowhere/file", "failed to write \"/nowhere/file\""),
            ("/dev/full", "failed to write \"/dev/full\""),
        ] {
            service.program(ADMIN, &format!("{command} --output-file {file}")).await.expect(2, &[says]);
        }
        let printed = service.program(ADMIN, &format!("{command} --output-file /dev/stdout")).await;
        assert!(printed.expect(0, &["exported "]).stdout.starts_with('{'), "{printed:?}");
    }
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 5, "no temporary file is left");
}

async fn gaps_and_silence_are_stated(database: Database) {
    let folder = keys();
    let limits = Limits { silent_after: Duration::from_micros(1), ..Limits::default() };
    let service =
        TestService::start_with(database, Options { limits, ..options(folder.path().join("key")) }).await;
    for digit in ['a', 'a', 'b'] {
        let response = service.report(ADMIN, "prod", report(&[pod("p", "shop/cart:1", digit)])).await;
        assert!(response.status.is_success(), "{response:?}");
    }
    let line =
        |expression: &str| format!("export {expression} --output-file {}/statement", folder.path().display());
    for (expression, complete, gaps, message) in
        [("prod#1", true, 2, "gap: no reports from 20"), ("prod", false, 0, "No reports since")]
    {
        _ = std::fs::remove_file(folder.path().join("statement"));
        service.program(READER, &line(expression)).await.expect(0, &[]);
        let verified = offline(folder.path(), "verify statement --key public -o json").await;
        let statement: Value = serde_json::from_str(&verified.expect(0, &[message]).stdout).unwrap();
        let predicate = &statement["predicate"];
        assert_eq!(predicate["isComplete"], complete, "{predicate}");
        assert_eq!(predicate["gaps"].as_array().unwrap().len(), gaps, "{predicate}");
    }
}

async fn statement_that_cannot_be_made_is_explained(database: Database) {
    let unsigned =
        TestService::start_with(database, Options { signing_key: None, ..options(PathBuf::new()) }).await;
    run(&unsigned, "prod", "a").await;
    unsigned.report(ADMIN, "prod", report(&[])).await.expect(201);
    let program = async |token: &str, what: &str| {
        unsigned.program(token, &format!("export {what} --output-file f")).await
    };
    program(READER, "prod#1").await.expect(4, &["the service signs no statements", "serve --signing-key"]);
    program(READER, "prod").await.expect(4, &["no artifact ran in environment \"prod\" at "]);
    program(READER, "prod#7").await.expect(4, &["it has 2 snapshots"]);
    program(READER, "nowhere").await.expect(4, &["environment nowhere not found"]);
    for token in [ATTESTER, REPORTER, STRANGER] {
        program(token, "prod").await.expect(3, &["403 Forbidden"]);
    }
    program(READER, "prod#").await.expect(2, &["expected a number of a snapshot"]);
    program(READER, "prod#1 --timeout 0s").await.expect(2, &["--timeout"]);
    unsigned
        .get(READER, "/snapshots/acme/prod/soon/statement")
        .await
        .assert_field_error("snapshot", "expected");
}

#[tokio::test]
async fn file_that_is_no_valid_statement_is_rejected() {
    let folder = keys();
    let key = SigningKey::read(&folder.path().join("key")).unwrap();
    let sign = |kind: &str, payload: &str| {
        serde_json::to_value(key.sign_envelope(kind, payload.as_bytes()).unwrap()).unwrap()
    };
    let in_toto = "application/vnd.in-toto+json";
    let ours = |kind: &str| {
        let predicate = "https://github.com/supercargo/supercargo/running-artifacts/v1";
        json!({"_type": kind, "predicateType": predicate}).to_string()
    };
    let [ours, newer] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v9"].map(ours);
    let valid = sign(in_toto, &ours);
    let with = |field: &str, value: Value| {
        let mut changed = valid.clone();
        changed[field] = value;
        changed.to_string()
    };
    let signature = &valid["signatures"][0]["sig"];
    for (content, code, text) in [
        (valid.to_string(), 0, "the signature is valid"),
        // The identifier is only a hint, and any of the signatures counts.
        (
            with("signatures", json!([{"sig": "AAAA"}, {"keyid": "x", "sig": signature}])),
            0,
            "the signature is valid",
        ),
        (with("signatures", json!([])), 11, "is not signed with the key in \"public\""),
        (with("signatures", json!([{"sig": "?"}])), 11, "is not signed with the key"),
        (with("payload", json!("e30=")), 11, "is not signed with the key"),
        (with("payload", json!("?")), 11, "is not signed with the key"),
        (with("payloadType", json!("text/plain")), 11, "is not signed with the key"),
        (
            sign("text/plain", &ours).to_string(),
            2,
            "has the type \"text/plain\": expected \"application/vnd.in-toto+json\"",
        ),
        (sign(in_toto, "\u{1b}").to_string(), 2, "the statement in \"statement\" is not JSON"),
        (sign(in_toto, "[]").to_string(), 2, "has the type \"\": expected \"https://in-toto.io/"),
        (
            sign(in_toto, &newer).to_string(),
            2,
            "Statement/v9\": expected \"https://in-toto.io/Statement/v1\"",
        ),
        (
            sign(in_toto, r#"{"_type": "https://in-toto.io/Statement/v1", "predicateType": "x"}"#)
                .to_string(),
            2,
            "has the type \"x\": expected",
        ),
        ("{}".to_owned(), 2, "is neither a DSSE envelope nor a Sigstore bundle with one"),
        (String::new(), 2, "is neither a DSSE envelope nor a Sigstore bundle with one"),
    ] {
        std::fs::write(folder.path().join("statement"), &content).unwrap();
        let outcome = offline(folder.path(), "verify statement --key public").await;
        outcome.expect(code, &[text]);
        assert_eq!(outcome.stdout, "", "{content}");
    }
    for (line, text) in [
        ("verify none --key public", "failed to read \"none\""),
        ("verify statement --key none", "failed to read the key file \"none\""),
        ("verify statement --key key", "invalid public key in file \"key\""),
        ("verify statement", "--key"),
    ] {
        offline(folder.path(), line).await.expect(2, &[text]);
    }
    std::fs::write(folder.path().join("statement"), valid.to_string()).unwrap();
    offline(folder.path(), "verify statement --key other")
        .await
        .expect(11, &["is not signed with the key in \"other\""]);
}

/// DSSE and the schema of statements in Python (`in_toto_verify.py`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs securesystemslib: SUPERCARGO_TEST_PYTHON=python3"]
async fn statement_is_valid_for_other_implementations() {
    let python = std::env::var("SUPERCARGO_TEST_PYTHON").expect("SUPERCARGO_TEST_PYTHON");
    let folder = keys();
    for (private, public) in [("key", "public"), ("p256", "other")] {
        let service = TestService::start_with(Database::sqlite(), options(folder.path().join(private))).await;
        run(&service, "prod", "ab").await;
        let file = folder.path().join("statement");
        _ = std::fs::remove_file(&file);
        let line = format!("export prod --output-file {}", file.display());
        service.program(READER, &line).await.expect(0, &[]);
        let ours = offline(folder.path(), &format!("verify statement --key {public} -o json")).await;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/service/records/in_toto_verify.py");
        let theirs =
            Command::new(&python).args([script, "statement", public]).current_dir(folder.path()).output();
        let theirs = theirs.unwrap();
        assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
        let theirs: Value = serde_json::from_slice(&theirs.stdout).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&ours.expect(0, &[]).stdout).unwrap(), theirs);
        assert_eq!(theirs["subject"].as_array().unwrap().len(), 2);
    }
}

crate::service::on_both! {
    statement_has_what_ran_with_verdicts_and_the_policies_of_that_time,
    file_that_cannot_be_written_is_exit_code_2_and_an_existing_one_is_kept,
    gaps_and_silence_are_stated,
}

crate::service::on_sqlite! {
    statement_that_cannot_be_made_is_explained,
}
