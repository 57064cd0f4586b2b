//! Signed evidence: what is accepted, what policies require of it, and where it is shown.

use std::fs;
use std::path::{Path, PathBuf};

use model::Fingerprint;
use model::envelope::STATEMENT;
use reqwest::Method;
use reqwest::multipart::Part;
use runtime::signing::SigningKey;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::service::records::log::{KEY, OTHER_KEY, PUBLIC_KEY};
use crate::service::rules::check_policy;
use crate::service::rules::policies::{attach, put, verdicts};
use crate::service::support::browser::Browser;
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, Response, STRANGER, TestService, bootstrap, form,
};

const ISSUER: &str = "https://token.actions.githubusercontent.com";
const REPOSITORY: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon";
const WORKFLOW: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";

/// Bundles of Sigstore's conformance suite.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sigstore")
}

/// The bootstrap file with an entry of `trust`.
fn trusting(generation: i64, entry: &Value) -> String {
    bootstrap(generation, &format!("    trust: [{entry}]"))
}

/// Trusts the workflows of the suite, and the key of the log's tests.
fn options() -> Options {
    let identity = json!({"issuer": ISSUER, "subject": "https://github.com/sigstore-conformance/*"});
    let github = json!({"name": "github", "identities": [identity]});
    let key = json!({"name": "release-key", "keys": [{"file": "release.pub"}]});
    Options {
        bootstrap: bootstrap(1, &format!("    trust: [{github}, {key}]")),
        files: vec![("release.pub", PUBLIC_KEY.to_owned())],
        ..Options::default()
    }
}

async fn attest(service: &TestService, name: &str, artifact: &str, file: &str) -> Response {
    let data = json!({"attestation_name": name, "artifact_fingerprint": artifact,
                      "repo_info": {"name": "evil/fork", "url": "https://github.com/evil/fork"}});
    let form = form(&data).part("attachment_file", Part::text(file.to_owned()).file_name("bundle.json"));
    let path = "/attestations/acme/cart/trail/t/bundle";
    Response::from_request(service.request(Method::POST, ATTESTER, path).multipart(form)).await
}

/// The provenance of the suite, and the digest of its artifact.
fn provenance() -> (String, String) {
    let bundle = suite().join("happy-path-intoto-in-dsse-v3/bundle.sigstore.json");
    let artifact = Fingerprint::from_content(&fs::read(suite().join("a.txt")).unwrap());
    (fs::read_to_string(bundle).unwrap(), artifact.to_string())
}

/// A statement about artifacts that the key of the log's tests signed.
fn signed(folder: &TempDir, subjects: &[&str], predicate_type: &str, predicate: &Value) -> String {
    fs::write(folder.path().join("key"), KEY).unwrap();
    let key = SigningKey::read(&folder.path().join("key")).unwrap();
    let subject: Vec<_> =
        subjects.iter().map(|sha256| json!({"name": "x", "digest": {"sha256": sha256}})).collect();
    let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": subject,
                           "predicateType": predicate_type, "predicate": predicate});
    serde_json::to_string(&key.sign_envelope(STATEMENT, statement.to_string().as_bytes()).unwrap()).unwrap()
}

fn built_by(builder: &str) -> Value {
    json!({"runDetails": {"builder": {"id": builder}}, "buildDefinition": {"resolvedDependencies": [
        {"uri": "git+https://github.com/acme/cart@refs/heads/main", "digest": {"gitCommit": "4".repeat(40)}}]}})
}

async fn report(service: &TestService, artifact: &str) {
    let pod = json!({"podName": "p", "namespace": "shop", "creationTimestamp": 1_790_000_000,
                     "digests": {"shop/cart:1": artifact}, "owners": []});
    service.report(ADMIN, "prod", json!({"type": "K8S", "artifacts": [pod]}).to_string()).await.expect(201);
}

async fn bundles_of_the_conformance_suite_are_attested_or_rejected_as_named(database: Database) {
    let service = TestService::start(database).await;
    let mut names: Vec<_> = fs::read_dir(suite()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.is_dir());
    names.sort();
    assert_eq!(names.len(), 37);
    let mut accepted = 0;
    for (generation, folder) in (2..).zip(&names) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let text = |file: &str| fs::read_to_string(folder.join(file)).map(|text| text.trim().to_owned());
        let root = Some(folder.join("trusted_root.json")).filter(|root| root.exists());
        let root = root.unwrap_or_else(|| suite().join("trusted_root.json"));
        let mut entry = json!({"name": "suite", "root": {"file": root}});
        if folder.join("key.pub").exists() {
            entry["keys"] = json!([{"file": folder.join("key.pub")}]);
        } else {
            let issuer = text("issuer").unwrap_or_else(|_| ISSUER.to_owned());
            let identity = text("identity").unwrap_or_else(|_| WORKFLOW.to_owned());
            entry["identities"] = json!([{"issuer": issuer, "subject": identity}]);
        }
        service.reload(&trusting(generation, &entry)).await;
        let artifact =
            fs::read(folder.join("artifact")).or_else(|_| fs::read(suite().join("a.txt"))).unwrap();
        let artifact = Fingerprint::from_content(&artifact);
        let bundle = folder.join("bundle.sigstore.json");
        let line =
            format!("attest bundle {} --flow cart --trail {name} --fingerprint {artifact}", bundle.display());
        let outcome = service.program(ATTESTER, &line).await;
        if name.ends_with("_fail") {
            assert!(outcome.code != 0 && outcome.stdout.is_empty(), "{name}: {outcome:?}");
        } else {
            outcome.expect(0, &[]);
            let expected = format!("in cart/{name}: ");
            assert!(
                outcome.stdout.starts_with("attested ") && outcome.stdout.contains(&expected),
                "{outcome:?}"
            );
            accepted += 1;
        }
    }
    assert_eq!(accepted, 12);
    let recorded = service.database.rows("SELECT name FROM trails").await;
    assert_eq!(recorded.len(), accepted);
    assert!(recorded.iter().all(|name| !name.ends_with("_fail")), "{recorded:?}");
}

async fn evidence_is_recorded_shown_and_covered_by_the_log(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let (bundle, artifact) = provenance();
    report(&service, &artifact).await;
    let receipt = attest(&service, "provenance", &artifact, &bundle).await.expect(201);
    let receipt = receipt.headers["x-supercargo-signed-evidence"].to_str().unwrap().to_owned();
    let text = format!("signed by {WORKFLOW}, from {REPOSITORY} at ");
    assert!(receipt.starts_with(&format!("slsa-provenance {text}")), "{receipt}");
    // A repetition is not recorded twice.
    attest(&service, "provenance", &artifact, &bundle).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    let [attestation] = listed["data"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!(
        (&attestation["attestation_type"], &attestation["is_compliant"]),
        (&json!("slsa-provenance"), &json!(true))
    );
    // The repository is that of the certificate, and not that of the client.
    assert_eq!(attestation["repo_info"]["url"], REPOSITORY);
    let id = attestation["attestation_id"].as_str().unwrap();
    let details = service.read(&format!("/attestations/acme?attestation_id={id}")).await;
    let evidence = &details["data"][0]["signed_evidence"];
    assert_eq!(
        [
            &evidence["trust"],
            &evidence["issuer"],
            &evidence["subject"],
            &evidence["builder"],
            &evidence["source"]
        ],
        ["github", ISSUER, WORKFLOW, WORKFLOW, REPOSITORY]
    );
    assert!(evidence["signed_at"].as_f64().unwrap() > 1_700_000_000.0, "{evidence}");
    assert_eq!(details["data"][0]["git_commit_info"]["sha1"], evidence["commit"]);
    let shown = service.program(READER, &format!("get attestation {id}")).await;
    assert!(shown.expect(0, &[]).stdout.contains(&text), "{shown:?}");
    service
        .program(READER, &format!("get artifact {artifact}"))
        .await
        .expect(0, &[&format!("provenance {text}")]);
    let gate =
        service.program(READER, &format!("assert artifact --fingerprint {artifact} --flow cart")).await;
    assert!(gate.expect(0, &[]).stdout.contains(&text), "{gate:?}");
    for page in [format!("artifacts/{artifact}"), format!("flows/cart/trails/t/attestations/{id}")] {
        let html = Browser::read_page(&service, &format!("/ui/acme/{page}")).await;
        assert!(html.contains(&text), "{page}: {html}");
    }
    service.program(ADMIN, "log verify").await.expect(0, &["verified "]);
    for (table, column) in [("attestations", "signed_evidence"), ("trusted_signers", "content")] {
        let change =
            format!("UPDATE {table} SET {column} = REPLACE({column}, 'sigstore-conformance', 'evil')");
        service.database.execute(&change).await;
        service.program(ADMIN, "log verify").await.expect(11, &[]);
        let back = format!("UPDATE {table} SET {column} = REPLACE({column}, 'evil', 'sigstore-conformance')");
        service.database.execute(&back).await;
        service.program(ADMIN, "log verify").await.expect(0, &[]);
    }
    let audit = service.database.rows("SELECT change FROM audit").await.join("\n");
    let expected =
        format!("the trust \"github\" (https://github.com/sigstore-conformance/* of {ISSUER}) was added");
    assert!(
        audit.contains(&expected) && audit.contains("the trust \"release-key\" (1 key) was added"),
        "{audit}"
    );
}

async fn policy_requires_a_signer_a_builder_and_a_source(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let (bundle, artifact) = provenance();
    report(&service, &artifact).await;
    let rule = |requirement: &str| format!("attestations: [{{type: slsa-provenance, {requirement}}}]");
    put(&service, ADMIN, "built", &rule("signer: {trust: github}")).await.expect(201);
    attach(&service, "prod", &["built"]).await.expect(200);
    let missing = "prod NON-COMPLIANT [\"built v1: an attestation of type slsa-provenance is missing\"]";
    assert_eq!(verdicts(&service).await, [missing]);
    attest(&service, "provenance", &artifact, &bundle).await.expect(201);
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    let subject = "https://github.com/sigstore-conformance/*";
    let changes = [
        (
            format!(
                "signer: {{issuer: \"{ISSUER}\", subject: \"{subject}\"}}, builder: \"{subject}\", source: \"{REPOSITORY}\""
            ),
            None,
        ),
        (
            "signer: {subject: \"https://github.com/acme/*\"}".to_owned(),
            Some(format!("is signed by {WORKFLOW} of {ISSUER}, expected https://github.com/acme/*")),
        ),
        (
            "signer: {trust: release-key}".to_owned(),
            Some(format!("is signed by {WORKFLOW} of {ISSUER}, expected trusted by release-key")),
        ),
        // What the statement says of itself does not count beside a certificate.
        (
            "builder: \"https://github.com/loosebazooka/*\"".to_owned(),
            Some(format!("names the builder {WORKFLOW}, expected https://github.com/loosebazooka/*")),
        ),
        (
            "source: \"https://github.com/acme/*\"".to_owned(),
            Some(format!("names the source {REPOSITORY}, expected https://github.com/acme/*")),
        ),
    ];
    for (version, (requirement, finding)) in (2..).zip(changes) {
        let mut next = check_policy::candidate(&rule(&requirement));
        next["policy_name"] = json!("built");
        let effect = check_policy::send(&service, READER, &next).await.expect(200).json();
        let after = if finding.is_none() { "COMPLIANT" } else { "NON-COMPLIANT" };
        assert_eq!(effect["after"], after, "{effect}");
        let finding_of = |effect: &Value| effect["artifacts"][0]["reasons"][0]["text"].to_string();
        assert!(finding.iter().all(|finding| finding_of(&effect).contains(finding)), "{effect}");
        put(&service, ADMIN, "built", &rule(&requirement)).await.expect(200);
        let expected = finding.map_or_else(
            || "prod COMPLIANT []".to_owned(),
            |finding| format!("prod NON-COMPLIANT [\"built v{version}: provenance (slsa-provenance) of the flow cart {finding}\"]"),
        );
        assert_eq!(verdicts(&service).await, [expected], "{requirement}");
    }
    for (requirement, problem) in [
        ("signer: {}", "signer: expected at least one of trust, issuer and subject"),
        ("signer: {subject: \"https://github.com/*\"}", "invalid pattern"),
        ("builder: \"*\"", "invalid pattern"),
        ("signer: {key: x}", "unknown field"),
    ] {
        let rejected = put(&service, ADMIN, "built", &rule(requirement)).await.expect(400);
        assert!(rejected.text.contains(problem), "{rejected:?}");
    }
}

async fn unsigned_attestation_and_another_predicate_do_not_satisfy_a_rule(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let artifact = "a".repeat(64);
    let folder = tempfile::tempdir().unwrap();
    report(&service, &artifact).await;
    let rules =
        "attestations: [{type: slsa-provenance}, {name: unit, type: \"*\", signer: {trust: release-key}}]";
    put(&service, ADMIN, "built", rules).await.expect(201);
    attach(&service, "prod", &["built"]).await.expect(200);
    let junit = json!({"attestation_name": "unit", "artifact_fingerprint": artifact,
                       "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}]});
    service.attest(ADMIN, "cart", "t", form(&junit)).await.expect(201);
    let custom = json!({"attestation_name": "x", "artifact_fingerprint": artifact, "type_name": "slsa-provenance", "is_compliant": true});
    let path = "/attestations/acme/cart/trail/t/custom";
    Response::from_request(service.request(Method::POST, ADMIN, path).multipart(form(&custom)))
        .await
        .expect(201);
    let other =
        signed(&folder, &[&artifact], "https://example.com/provenance", &built_by("https://b.example/x"));
    attest(&service, "other", &artifact, &other).await.expect(201);
    let reasons = "[\"built v1: an attestation of type slsa-provenance of the flow cart is missing\",\
                   \"built v1: unit of the flow cart is not signed\"]";
    assert_eq!(verdicts(&service).await, [format!("prod NON-COMPLIANT {reasons}")]);
    // A failed verdict of another verifier does not pass.
    let summary = json!({"verificationResult": "FAILED"});
    let failed = signed(&folder, &[&artifact], "https://slsa.dev/verification_summary/v1", &summary);
    attest(&service, "unit", &artifact, &failed).await.expect(201);
    let found = verdicts(&service).await;
    assert!(found[0].contains("built v1: unit of the flow cart failed"), "{found:?}");
}

async fn evidence_that_is_not_trusted_records_nothing(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let (bundle, artifact) = provenance();
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = ("a".repeat(64), "b".repeat(64));
    let slsa = "https://slsa.dev/provenance/v1";
    let valid = signed(&folder, &[&one], slsa, &built_by("https://b.example/x"));
    let huge = signed(&folder, &[&one], slsa, &json!("x".repeat(7 * 1024 * 1024)));
    let far: Vec<String> = (0..20_000).map(|n| format!("{n:064x}")).collect();
    let far = signed(&folder, &far.iter().map(String::as_str).collect::<Vec<_>>(), slsa, &json!({}));
    let nested = format!("{{\"dsseEnvelope\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let mut changed: Value = serde_json::from_str(&bundle).unwrap();
    let payload = changed["dsseEnvelope"]["payload"].as_str().unwrap().replace("YSI", "YiI");
    changed["dsseEnvelope"]["payload"] = json!(payload);
    let changed = changed.to_string();
    for (artifact, file, expected) in [
        (&one, bundle.as_str(), "artifact mismatch"),
        (&artifact, &changed, "its signature is not trusted: github: "),
        (
            &other,
            &valid,
            "it is about another artifact: no subject of its statement has the digest sha256:bbb",
        ),
        (&other, &huge, "it is about another artifact"),
        (&one, &far, "it is about another artifact"),
        (&one, &nested, "neither a Sigstore bundle nor a DSSE envelope"),
        (&one, "", "neither a Sigstore bundle nor a DSSE envelope"),
        (&one, "notes", "neither a Sigstore bundle nor a DSSE envelope"),
    ] {
        attest(&service, "x", artifact, file).await.assert_field_error("attachment_file", expected);
    }
    let data = json!({"attestation_name": "x"});
    let no_artifact = form(&data).part("attachment_file", Part::text(bundle.clone()).file_name("b"));
    let path = "/attestations/acme/cart/trail/t/bundle";
    let response =
        Response::from_request(service.request(Method::POST, ATTESTER, path).multipart(no_artifact)).await;
    response.assert_field_error("artifact_fingerprint", "expected one fingerprint");
    let no_file = form(&json!({"attestation_name": "x", "artifact_fingerprint": artifact}));
    let response =
        Response::from_request(service.request(Method::POST, ATTESTER, path).multipart(no_file)).await;
    response.assert_field_error("attachment_file", "missing part");
    // Another organization trusts nobody.
    let data = json!({"attestation_name": "x", "artifact_fingerprint": artifact});
    let of_stranger = form(&data).part("attachment_file", Part::text(bundle).file_name("b"));
    let path = "/attestations/stranger/cart/trail/t/bundle";
    let response =
        Response::from_request(service.request(Method::POST, STRANGER, path).multipart(of_stranger)).await;
    response.assert_field_error("attachment_file", "the organization trusts no identities");
    for table in ["attestations", "trails", "flows", "attachments"] {
        assert_eq!(service.database.rows(&format!("SELECT 'x' FROM {table}")).await.len(), 0, "{table}");
    }
    // A key that is no longer trusted.
    let removed = json!({"name": "release-key", "keys": [{"file": "other.pub"}]});
    fs::write(service.bootstrap_file().with_file_name("other.pub"), OTHER_KEY).unwrap();
    attest(&service, "x", &one, &valid).await.expect(201);
    service.reload(&trusting(2, &removed)).await;
    attest(&service, "y", &one, &valid)
        .await
        .assert_field_error("attachment_file", "its signature is not trusted: release-key: ");
}

async fn source_that_differs_from_the_claimed_origin_is_a_conflict(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let artifact = "a".repeat(64);
    report(&service, &artifact).await;
    let junit = json!({"attestation_name": "unit", "artifact_fingerprint": artifact,
                       "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
                       "repo_info": {"name": "acme/fork", "url": "https://github.com/acme/fork"}});
    service.attest(ADMIN, "cart", "t", form(&junit)).await.expect(201);
    let folder = tempfile::tempdir().unwrap();
    let file =
        signed(&folder, &[&artifact], "https://slsa.dev/provenance/v1", &built_by("https://b.example/x"));
    attest(&service, "provenance", &artifact, &file).await.expect(201);
    let text = "signed by release-key, built by https://b.example/x, from https://github.com/acme/cart at 444444444444";
    let conflict = "its origin is in conflict with 1 other claim";
    let command = format!("get artifact {artifact}");
    service.program(READER, &command).await.expect(0, &[&format!("provenance {text}"), conflict]);
    let gate = service.program(READER, &format!("assert artifact --fingerprint {artifact}")).await;
    assert!(gate.stdout.contains(text) && gate.stdout.contains(conflict), "{gate:?}");
    let html = Browser::read_page(&service, &format!("/ui/acme/artifacts/{artifact}")).await;
    for expected in [text, "Conflicting origins", "https://github.com/acme/cart"] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
}

async fn exported_statement_is_evidence_alone_and_in_a_bundle(database: Database) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), KEY).unwrap();
    let options = Options { signing_key: Some(folder.path().join("key")), ..options() };
    let service = TestService::start_with(database, options).await;
    let artifact = "a".repeat(64);
    report(&service, &artifact).await;
    let (file, bundle) = (folder.path().join("prod.json"), folder.path().join("bundle.json"));
    service.program(READER, &format!("export prod --output-file {}", file.display())).await.expect(0, &[]);
    let envelope: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let wrapped = json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": envelope,
                         "verificationMaterial": {"publicKey": {"hint": envelope["signatures"][0]["keyid"]}}});
    fs::write(&bundle, wrapped.to_string()).unwrap();
    let (key, other_key) = (folder.path().join("key.pub"), folder.path().join("other.pub"));
    fs::write(&key, PUBLIC_KEY).unwrap();
    fs::write(&other_key, OTHER_KEY).unwrap();
    for file in [file, bundle] {
        let verify = |key: &Path| format!("verify {} --key {}", file.display(), key.display());
        service.program(READER, &verify(&key)).await.expect(0, &["the signature is valid: "]);
        service.program(READER, &verify(&other_key)).await.expect(11, &["is not signed with the key"]);
        let line = format!("attest bundle {} --flow cart --trail t --fingerprint {artifact}", file.display());
        let attested = service.program(ATTESTER, &line).await;
        let expected = "attested statement in cart/t: statement signed by release-key\n";
        assert_eq!(attested.expect(0, &[]).stdout, expected);
        let other = line.replace(&artifact, &"b".repeat(64));
        let rejected = service.program(ATTESTER, &other).await;
        assert!(
            rejected.code != 0 && rejected.stderr.contains("it is about another artifact"),
            "{rejected:?}"
        );
    }
}

async fn packages_of_a_signed_bill_of_materials_are_found(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let artifact = "a".repeat(64);
    report(&service, &artifact).await;
    let folder = tempfile::tempdir().unwrap();
    let purl = "pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1";
    let component = json!({"type": "library", "name": "log4j-core", "version": "2.14.1", "purl": purl});
    let document = json!({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [component]});
    let spdx = json!({"spdxVersion": "SPDX-2.3", "packages": []});
    for (predicate_type, predicate, expected) in [
        (
            "https://spdx.dev/Document/v2.3",
            &spdx,
            "not read as a bill of materials: the SPDX 2.3 has no packages",
        ),
        ("https://spdx.dev/Document", &json!({}), "expected CycloneDX or SPDX in JSON"),
        (
            "https://cyclonedx.org/bom/v1.6",
            &document,
            "attested sbom in cart/t: sbom signed by release-key: CycloneDX 1.6, 1 package\n",
        ),
    ] {
        let file = folder.path().join("bill.json");
        fs::write(&file, signed(&folder, &[&artifact], predicate_type, predicate)).unwrap();
        let line = format!("attest bundle {} --flow cart --trail t --fingerprint {artifact}", file.display());
        let outcome = service.program(ATTESTER, &line).await;
        let output = format!("{}{}", outcome.stdout, outcome.expect(0, &[]).stderr);
        assert!(output.contains(expected), "{output}");
    }
    let found = service.read("/packages/acme?name=log4j-core").await;
    assert_eq!(found["data"].as_array().unwrap().len(), 1, "{found}");
    assert!(found.to_string().contains(&artifact), "{found}");
}

async fn latest_attestation_counts_whether_it_is_signed_or_not(database: Database) {
    let service = TestService::start_with(database, options()).await;
    let artifact = "a".repeat(64);
    report(&service, &artifact).await;
    let rule = "attestations: [{name: provenance, type: slsa-provenance, signer: {trust: release-key}}]";
    put(&service, ADMIN, "built", rule).await.expect(201);
    attach(&service, "prod", &["built"]).await.expect(200);
    let folder = tempfile::tempdir().unwrap();
    let evidence =
        signed(&folder, &[&artifact], "https://slsa.dev/provenance/v1", &built_by("https://b.example/x"));
    let junit = json!({"attestation_name": "provenance", "artifact_fingerprint": artifact,
                       "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}]});
    for _ in 0..2 {
        attest(&service, "provenance", &artifact, &evidence).await.expect(201);
        assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
        service.attest(ATTESTER, "cart", "t", form(&junit)).await.expect(201);
        let missing =
            "prod NON-COMPLIANT [\"built v1: provenance (slsa-provenance) of the flow cart is missing\"]";
        assert_eq!(verdicts(&service).await, [missing]);
    }
}

crate::service::on_both!(
    evidence_is_recorded_shown_and_covered_by_the_log,
    policy_requires_a_signer_a_builder_and_a_source,
    unsigned_attestation_and_another_predicate_do_not_satisfy_a_rule,
    source_that_differs_from_the_claimed_origin_is_a_conflict,
    latest_attestation_counts_whether_it_is_signed_or_not,
);

crate::service::on_sqlite!(
    bundles_of_the_conformance_suite_are_attested_or_rejected_as_named,
    evidence_that_is_not_trusted_records_nothing,
    exported_statement_is_evidence_alone_and_in_a_bundle,
    packages_of_a_signed_bill_of_materials_are_found,
);
