//! Image indexes: their evidence counts for the manifests that they list, and the reverse.

use model::Fingerprint;
use reqwest::Method;
use serde_json::{Value, json};

use crate::service::bootstrap;
use crate::service::records::log::log;
use crate::service::report;
use crate::service::rules::policies::{UNIT, attach, put as put_policy};
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::{
    ADMIN, ATTESTER, Database, READER, Response, STRANGER, TestService, digest, form, in_words, pod,
};

/// An index of these manifests on `linux/amd64`, `linux/arm64` and so on, and its digest.
fn index(digits: &str) -> (String, String) {
    let platforms = ["amd64", "arm64", "riscv64"];
    let manifest = |(digit, platform): (char, &str)| json!({"digest": format!("sha256:{}", digest(digit)), "platform": {"os": "linux", "architecture": platform}});
    let manifests: Vec<_> = digits.chars().zip(platforms).map(manifest).collect();
    let document = json!({"schemaVersion": 2, "manifests": manifests}).to_string();
    let fingerprint = Fingerprint::from_content(document.as_bytes()).to_string();
    (document, fingerprint)
}

async fn send(service: &TestService, token: &str, path: &str, body: &Value) -> Response {
    let path = format!("/artifacts/{path}/image-index");
    let request = service.request(Method::POST, token, &path).header("Content-Type", "application/json");
    Response::from_request(request.body(body.to_string())).await
}

async fn record(service: &TestService, index: &(String, String)) -> Response {
    let (document, fingerprint) = index;
    send(service, ATTESTER, "acme/cart", &json!({"document": document, "fingerprint": fingerprint})).await
}

async fn attest(service: &TestService, fingerprint: &str, failures: u32) {
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": fingerprint,
        "junit_results": [{"name": "all", "total": 3, "failures": failures, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
}

/// Runs manifests and, if it is given, their index in an environment with a policy.
async fn run(service: &TestService, environment: &str, digits: &str, index: Option<&str>) {
    let mut pods: Vec<_> =
        digits.chars().map(|digit| pod(&format!("p-{digit}"), "shop/cart", digit)).collect();
    if let Some(index) = index {
        let mut pod = pod("p-index", "shop/cart", '0');
        pod["digests"] = json!({"shop/cart": index});
        pods.push(pod);
    }
    service.report(ADMIN, environment, report(&pods)).await.expect(201);
}

async fn start(database: Database, policy: &str) -> TestService {
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("other", "shop/other", 'f')])).await.expect(201);
    put_policy(&service, ADMIN, "tested", policy).await.expect(201);
    attach(&service, "prod", &["tested"]).await.expect(200);
    service
}

/// The verdict and the reasons for these artifacts in `prod`.
async fn verdicts(service: &TestService, artifacts: &[&str]) -> Vec<String> {
    let mut verdicts = Vec::new();
    for artifact in artifacts {
        let select = format!(
            "SELECT compliance || ' ' || reasons FROM verdicts WHERE until_at IS NULL AND fingerprint = {}",
            service.database.bytes(artifact)
        );
        verdicts.extend(in_words(service.database.rows(&select).await));
    }
    verdicts
}

const GOOD: &str = "COMPLIANT []";
const UNTESTED: &str = r#"NON-COMPLIANT ["tested v1: unit (junit) is missing"]"#;

async fn evidence_counts_between_an_index_and_its_manifests(database: Database) {
    let service = start(database, UNIT).await;
    let (a, b, c) = (digest('a'), digest('b'), digest('c'));
    let listed = index("ab");
    let recorded = record(&service, &listed).await.expect(201).json();
    let manifests = json!([
        {"fingerprint": a, "platform": "linux/amd64"}, {"fingerprint": b, "platform": "linux/arm64"},
    ]);
    assert_eq!(recorded, json!({"fingerprint": listed.1, "manifests": manifests}));
    assert_eq!(record(&service, &listed).await.expect(200).json(), recorded);
    run(&service, "prod", "abc", Some(&listed.1)).await;
    let all = [a.as_str(), &b, &listed.1, &c];
    let for_amd64 = r#"NON-COMPLIANT ["tested v1: unit (junit) is missing for linux/amd64"]"#;
    assert_eq!(verdicts(&service, &all).await, [UNTESTED, UNTESTED, for_amd64, UNTESTED]);
    // Evidence on the index counts for its manifests, and for no other artifact.
    attest(&service, &listed.1, 0).await;
    assert_eq!(verdicts(&service, &all).await, [GOOD, GOOD, GOOD, UNTESTED]);
    // A later failure on one platform counts for the index, and not for the other platform.
    attest(&service, &b, 1).await;
    let failed = r#"NON-COMPLIANT ["tested v1: unit (junit) of the flow cart failed"]"#;
    let failed_on_arm = failed.replace("failed", "failed for linux/arm64");
    assert_eq!(verdicts(&service, &all).await, [GOOD, failed, &failed_on_arm, UNTESTED]);
    attest(&service, &b, 0).await;
    assert_eq!(verdicts(&service, &all).await, [GOOD, GOOD, GOOD, UNTESTED]);
    // A report evaluates as an attestation does.
    run(&service, "prod", "ab", Some(&listed.1)).await;
    assert_eq!(verdicts(&service, &all[..3]).await, [GOOD, GOOD, GOOD]);
    // Shown for both digests, also to the gate, and covered by the log.
    let artifact = service.read(&format!("/artifacts/acme/cart/fingerprint/{}", listed.1)).await;
    assert_eq!((&artifact["image_manifests"], &artifact["image_indexes"]), (&manifests, &json!([])));
    let found = service.read(&format!("/search/acme/sha/{b}")).await;
    let indexes = json!([{"fingerprint": listed.1, "platform": "linux/arm64"}]);
    assert_eq!(found["artifacts"][0]["image_indexes"], indexes);
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{b}")).await;
    let link = format!("<a href=\"{}/ui/acme/artifacts/{}\">", service.base, listed.1);
    assert_contains(&page, &["manifest <bdi>linux/arm64</bdi> of index ", &link]);
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{}", listed.1)).await;
    assert_contains(&page, &["<bdi>linux/amd64</bdi> ", &format!("sha256:{a}")]);
    log(&service, &["verify"]).await.expect(0, &[]);
}

async fn index_needs_evidence_for_each_platform_and_siblings_share_none(database: Database) {
    let service = start(database, UNIT).await;
    let (a, b) = (digest('a'), digest('b'));
    let listed = index("ab");
    run(&service, "prod", "ab", Some(&listed.1)).await;
    attest(&service, &a, 0).await;
    let all = [a.as_str(), &b, &listed.1];
    assert_eq!(verdicts(&service, &all).await, [GOOD, UNTESTED, UNTESTED]);
    // A relation that is recorded later is evaluated.
    record(&service, &listed).await.expect(201);
    let for_arm64 = r#"NON-COMPLIANT ["tested v1: unit (junit) is missing for linux/arm64"]"#;
    assert_eq!(verdicts(&service, &all).await, [GOOD, UNTESTED, for_arm64]);
    attest(&service, &b, 0).await;
    assert_eq!(verdicts(&service, &all).await, [GOOD, GOOD, GOOD]);
    // The verdicts of the past stay.
    let past = "SELECT compliance FROM verdicts WHERE until_at IS NOT NULL AND compliance = 'NON-COMPLIANT'";
    assert!(service.database.rows(past).await.len() >= 3);
}

async fn late_index_makes_its_manifest_compliant_before_and_after_it_runs(database: Database) {
    let service = start(database, &format!("provenance: {{required: true}}, {UNIT}, approval: {{}}")).await;
    let listed = index("ab");
    run(&service, "prod", "a", None).await;
    attest(&service, &listed.1, 0).await;
    let approval = json!({"artifact_fingerprint": listed.1, "approvals": [{"state": "APPROVED"}]});
    let approve = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
    let approve = approve.header("Content-Type", "application/json").body(approval.to_string());
    Response::from_request(approve).await.expect(201);
    let gate = async |digit| {
        let path = format!("/asserts/acme/fingerprint/{}?environment_name=prod", digest(digit));
        service.get(READER, &path).await
    };
    gate('b').await.expect(404);
    record(&service, &listed).await.expect(201);
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [GOOD]);
    assert_eq!(gate('b').await.expect(200).json()["compliant"], true);
    let path = format!("/asserts/acme/fingerprint/{}?policy_name=tested&flow_name=web", digest('b'));
    service.get(READER, &path).await.expect(404);
}

async fn exact_policy_counts_only_the_digest_itself(database: Database) {
    let service = start(database, &format!("digests: exact, {UNIT}")).await;
    let listed = index("a");
    record(&service, &listed).await.expect(201);
    run(&service, "prod", "a", Some(&listed.1)).await;
    attest(&service, &listed.1, 0).await;
    assert_eq!(verdicts(&service, &[&digest('a'), &listed.1]).await, [UNTESTED, GOOD]);
    attest(&service, &digest('a'), 0).await;
    assert_eq!(verdicts(&service, &[&digest('a'), &listed.1]).await, [GOOD, GOOD]);
}

async fn forged_index_is_rejected_and_cannot_hide_a_manifest(database: Database) {
    let service = start(database, UNIT).await;
    let (good, evil) = (index("ab"), index("ae"));
    let sent = json!({"document": evil.0, "fingerprint": good.1});
    let expected = format!("expected the SHA-256 of the document, {}", evil.1);
    send(&service, ATTESTER, "acme/cart", &sent).await.assert_field_error("fingerprint", &expected);
    let sent = json!({"document": "{}", "fingerprint": good.1});
    send(&service, ATTESTER, "acme/cart", &sent)
        .await
        .assert_field_error("document", "missing field `manifests`");
    let sent = json!({"document": good.0, "fingerprint": good.1});
    send(&service, ATTESTER, "acme/web", &sent).await.expect(403);
    send(&service, READER, "acme/cart", &sent).await.expect(403);
    record(&service, &good).await.expect(201);
    attest(&service, &good.1, 0).await;
    attest(&service, &digest('a'), 0).await;
    // An index that lists a good and an evil manifest runs either.
    record(&service, &evil).await.expect(201);
    run(&service, "prod", "ae", Some(&evil.1)).await;
    let for_arm64 = r#"NON-COMPLIANT ["tested v1: unit (junit) is missing for linux/arm64"]"#;
    let all = [digest('a'), digest('e'), evil.1];
    let all = all.each_ref().map(String::as_str);
    assert_eq!(verdicts(&service, &all).await, [GOOD, UNTESTED, for_arm64]);
    // A change of the database is found.
    let row = format!("WHERE fingerprint = {}", service.database.bytes(&digest('b')));
    for (change, undo, message) in [
        ("platform = 'linux/amd64'", "platform = 'linux/arm64'", "does not match its record"),
        (
            "created_at = created_at + 1",
            "created_at = created_at - 1",
            "1 rows of kind unexplained-image-manifest",
        ),
        ("is_recent = FALSE", "is_recent = TRUE", "1 rows of kind unexplained-image-manifest"),
    ] {
        service.database.execute(&format!("UPDATE image_manifests SET {change} {row}")).await;
        log(&service, &["verify"]).await.expect(11, &[message]);
        service.database.execute(&format!("UPDATE image_manifests SET {undo} {row}")).await;
    }
    log(&service, &["verify"]).await.expect(0, &[]);
}

async fn index_is_attested_only_by_flows_that_may_attest_its_manifests(database: Database) {
    let service = start(database, UNIT).await;
    service
        .reload(&bootstrap(
            2,
            "    flows: [{name: cart, images: ['shop/cart*']}, {name: web, images: ['shop/web*']}]",
        ))
        .await;
    attach(&service, "prod", &["tested"]).await;
    run(&service, "prod", "a", None).await;
    let (own, forged) = (index("ab"), index("ac"));
    let sent = |(document, fingerprint): &(String, String)| json!({"document": document, "fingerprint": fingerprint});
    let refused = r#"the flow does not declare the image \"shop/cart\" of artifact "#;
    let message = send(&service, ADMIN, "acme/web", &sent(&forged)).await.expect(403).text;
    assert!(message.contains(refused), "{message}");
    record(&service, &own).await.expect(201);
    // The index did not run, but its manifest did.
    let data = json!({
        "attestation_name": "unit", "artifact_fingerprint": own.1,
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
    });
    let message = service.attest(ADMIN, "web", "t", form(&data)).await.expect(403).text;
    assert!(message.contains(refused), "{message}");
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [UNTESTED]);
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [GOOD]);
}

async fn approval_and_other_attestations_of_an_index_make_its_manifest_known(database: Database) {
    let service = start(database, "approval: {}").await;
    put_policy(&service, ADMIN, "other", UNIT).await.expect(201);
    let (approved, linted) = (index("a"), index("b"));
    for listed in [&approved, &linted] {
        record(&service, listed).await.expect(201);
    }
    let approval = json!({"artifact_fingerprint": approved.1, "approvals": [{"state": "APPROVED"}]});
    let approve = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
    let approve = approve.header("Content-Type", "application/json").body(approval.to_string());
    Response::from_request(approve).await.expect(201);
    let data = json!({
        "attestation_name": "lint", "artifact_fingerprint": linted.1,
        "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
    });
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    for (digit, policy, is_compliant) in
        [('a', "tested", true), ('b', "tested", false), ('b', "other", false)]
    {
        let path = format!("/asserts/acme/fingerprint/{}?policy_name={policy}", digest(digit));
        let result = service.get(READER, &path).await.expect(200).json();
        assert_eq!(result["compliant"], is_compliant, "{digit} {policy}: {result}");
    }
}

async fn index_of_another_organization_does_not_count(database: Database) {
    let service = start(database, UNIT).await;
    let listed = index("a");
    run(&service, "prod", "a", None).await;
    attest(&service, &listed.1, 0).await;
    let sent = json!({"document": listed.0, "fingerprint": listed.1});
    send(&service, STRANGER, "stranger/cart", &sent).await.expect(201);
    run(&service, "prod", "ab", None).await;
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [UNTESTED]);
    record(&service, &listed).await.expect(201);
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [GOOD]);
}

/// Another index with the same manifests.
fn build(first: &(String, String), n: u8) -> (String, String) {
    let annotated = format!("\"annotations\": {{\"build\": \"{n}\"}}, \"manifests\":");
    let document = first.0.replace("\"manifests\":", &annotated);
    let fingerprint = Fingerprint::from_content(document.as_bytes()).to_string();
    (document, fingerprint)
}

async fn later_indexes_do_not_hide_the_author_of_the_first(database: Database) {
    let service = start(database, "approval: {not_author: true}").await;
    let first = index("ab");
    record(&service, &first).await.expect(201);
    run(&service, "prod", "a", None).await;
    let attest = async |fingerprint: &str, author: &str| {
        let data = json!({
            "attestation_name": author, "artifact_fingerprint": fingerprint,
            "git_commit_info": {"sha1": "0123456789012345678901234567890123456789", "author": author},
            "junit_results": [{"name": "all", "total": 3, "failures": 0, "errors": 0}],
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    };
    attest(&first.1, "Admin").await;
    for n in 0..16 {
        record(&service, &build(&first, n)).await.expect(201);
    }
    let approval = json!({"artifact_fingerprint": digest('a'), "approvals": [{"state": "APPROVED"}]});
    let request = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
    let request = request.header("Content-Type", "application/json").body(approval.to_string());
    Response::from_request(request).await.expect(201);
    let own = r#"NON-COMPLIANT ["tested v1: not approved by others than the author"]"#;
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [own]);
    attest(&digest('a'), "Nobody").await;
    let conflict = r#"NON-COMPLIANT ["tested v1: not approved: the author of the commit is Admin in the flow cart, but Nobody in the flow cart"]"#;
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [conflict]);
}

async fn only_the_newest_indexes_of_a_manifest_count(database: Database) {
    let service = start(database, UNIT).await;
    let old = index("ab");
    record(&service, &old).await.expect(201);
    run(&service, "prod", "a", None).await;
    attest(&service, &old.1, 0).await;
    let newer = |n: u8| build(&old, n);
    for n in 1..16 {
        record(&service, &newer(n)).await.expect(201);
    }
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [GOOD]);
    // Indexes of another flow leave it in place.
    let (document, fingerprint) = newer(17);
    let sent = json!({"document": document, "fingerprint": fingerprint});
    send(&service, ADMIN, "acme/web", &sent).await.expect(201);
    assert!(service.read("/flows/acme").await.to_string().contains("\"web\""));
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [GOOD]);
    record(&service, &newer(16)).await.expect(201);
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [UNTESTED]);
    attest(&service, &newer(16).1, 0).await;
    assert_eq!(verdicts(&service, &[&digest('a')]).await, [GOOD]);
}

async fn running_digest_that_no_flow_knows_has_a_hint(database: Database) {
    let service = start(database, UNIT).await;
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{}", digest('f'))).await;
    assert_contains(&page, &["No flow knows this digest.", "CRI-O"]);
    attest(&service, &digest('f'), 0).await;
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{}", digest('f'))).await;
    assert!(!page.contains("No flow knows this digest."), "{page}");
}

crate::service::on_both! {
    evidence_counts_between_an_index_and_its_manifests,
    index_needs_evidence_for_each_platform_and_siblings_share_none,
    late_index_makes_its_manifest_compliant_before_and_after_it_runs,
    exact_policy_counts_only_the_digest_itself,
    forged_index_is_rejected_and_cannot_hide_a_manifest,
    index_is_attested_only_by_flows_that_may_attest_its_manifests,
    approval_and_other_attestations_of_an_index_make_its_manifest_known,
    index_of_another_organization_does_not_count,
    later_indexes_do_not_hide_the_author_of_the_first,
    only_the_newest_indexes_of_a_manifest_count,
}
crate::service::on_sqlite! { running_digest_that_no_flow_knows_has_a_hint }
