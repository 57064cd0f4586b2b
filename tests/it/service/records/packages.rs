//! Bills of materials, and where their packages run.

use std::time::Duration;

use reqwest::Method;
use reqwest::multipart::Part;
use serde_json::{Value, json};
use service::Limits;

use crate::service::support::browser::Browser;
use crate::service::support::test_service::eventually;
use crate::service::{
    ADMIN, ATTESTER, Database, Options, READER, Response, STRANGER, TestService, bootstrap, digest, form,
    pod, report,
};

/// A `CycloneDX` document with these package URLs.
fn bill(purls: &[&str]) -> String {
    let component = |purl: &&str| json!({"type": "library", "name": "x", "purl": purl});
    let components: Vec<_> = purls.iter().map(component).collect();
    json!({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": components}).to_string()
}

async fn attest(service: &TestService, kind: &str, name: &str, artifact: char, file: String) -> Response {
    let path = format!("/attestations/acme/cart/trail/t/{kind}");
    let data = json!({"attestation_name": name, "is_compliant": true, "artifact_fingerprint": digest(artifact),
                      "git_commit_info": {"sha1": "4f1c2e7d4f1c2e7d4f1c2e7d4f1c2e7d4f1c2e7d"},
                      "repo_info": {"name": "acme/cart", "url": "https://github.com/acme/cart"}});
    let form = form(&data).part("attachment_file", Part::text(file).file_name("bom.json"));
    Response::from_request(service.request(Method::POST, ATTESTER, &path).multipart(form)).await.expect(201)
}

/// Environment, first digit, version and mark of what a search finds.
async fn found(service: &TestService, query: &str) -> Vec<String> {
    let page = service.read(&format!("/packages/acme?{query}")).await;
    let row = |found: &Value| {
        let text = |pointer| found.pointer(pointer).and_then(Value::as_str).unwrap();
        let mark = if found["is_unclear"] == true { "?" } else { "" };
        let (environment, digits) = (text("/environment"), text("/fingerprint"));
        format!("{environment} {} {}{mark}", &digits[..1], text("/package/version"))
    };
    page["data"].as_array().unwrap().iter().map(row).collect()
}

const LOG4J_OLD: &str = "pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1";
const LOG4J_NEW: &str = "pkg:maven/org.apache.logging.log4j/log4j-core@2.24.0";

async fn package_is_found_where_its_image_runs(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "sbom", "sbom", 'a', bill(&[LOG4J_OLD, "pkg:npm/%40acme/cart@1.0.0"])).await;
    attest(&service, "generic", "bom", 'b', bill(&[LOG4J_NEW, "pkg:apk/alpine/log4j-core@2.1-r1"])).await;
    attest(&service, "sbom", "sbom", 'd', bill(&[LOG4J_OLD])).await;
    for (environment, pods) in [
        ("prod", vec![pod("p", "cart:1", 'a'), pod("q", "shop:1", 'b'), pod("r", "redis:1", 'c')]),
        ("test", vec![pod("p", "cart:1", 'a')]),
        ("test", vec![pod("q", "shop:1", 'b')]),
    ] {
        service.report(ADMIN, environment, report(&pods)).await.expect(201);
    }
    let all = ["prod a 2.14.1", "prod b 2.24.0", "prod b 2.1-r1", "test b 2.24.0", "test b 2.1-r1"];
    let mut listed = found(&service, "name=Log4J-core").await;
    listed.sort();
    let mut sorted = all;
    sorted.sort_unstable();
    assert_eq!(listed, sorted);
    for (query, expected) in [
        ("name=org.apache.logging.log4j:log4j-core&version=%3C2.17.1", vec!["prod a 2.14.1"]),
        (
            "name=org.apache.logging.log4j/log4j-core&version=%3E2.17.1",
            vec!["prod b 2.24.0", "test b 2.24.0"],
        ),
        ("name=log4j-core&version=%3C2&purl_type=Maven", vec![]),
        // The order of versions of Alpine is not known.
        ("name=log4j-core&version=%3C2.17.1&purl_type=apk", vec!["prod b 2.1-r1?", "test b 2.1-r1?"]),
        ("name=@acme/cart", vec!["prod a 1.0.0"]),
        ("name=org.example:log4j-core", vec![]),
        ("name=log4j", vec![]),
    ] {
        assert_eq!(found(&service, query).await, expected, "{query}");
    }
    let page = service.read("/packages/acme?name=%40acme/cart").await;
    let counts =
        ["matches", "running_images", "images_without_bill"].map(|field| page[field].as_u64().unwrap());
    assert_eq!((counts, &page["next"]), ([1, 3, 1], &Value::Null));
    let cart = &page["data"][0];
    assert_eq!(cart["workloads"], json!([]));
    assert_eq!((&cart["image"], &cart["is_silent"]), (&json!("cart:1"), &json!(false)));
    assert_eq!(cart["git_commit"], "4f1c2e7d4f1c2e7d4f1c2e7d4f1c2e7d4f1c2e7d");
    let other = service.get(STRANGER, "/packages/stranger?name=log4j-core").await.expect(200).json();
    assert_eq!((&other["data"], &other["running_images"]), (&json!([]), &json!(0)));
    for (query, field) in [
        ("", "name"),
        ("name=x&version=latest%20one", "version"),
        ("name=x&at=tomorrow", "at"),
        ("name=x&at=2999-01-01", "at"),
        ("name=x&after=y", "after"),
    ] {
        service.get(READER, &format!("/packages/acme?{query}")).await.assert_field_error(field, "expected");
    }
    let html = Browser::read_page(&service, "/ui/acme/packages?name=log4j-core&version=%3C2.17.1").await;
    for expected in ["3 matches", "1 of 3 running images", "2.14.1", "not comparable"] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
}

async fn package_is_found_at_a_time_of_the_past(database: Database) {
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'b')])).await.expect(201);
    attest(&service, "sbom", "sbom", 'a', bill(&[LOG4J_OLD])).await;
    assert_eq!(found(&service, "name=log4j-core").await, [""; 0]);
    // An hour ago until a minute ago.
    let micros =
        |seconds: i64| format!("(SELECT MAX(started_at) - {} FROM artifact_runs)", seconds * 1_000_000);
    let (from, to) = (micros(3_600), micros(60));
    let first = service.database.bytes(&digest('a'));
    let age =
        format!("UPDATE artifact_runs SET started_at = {from}, ended_at = {to} WHERE fingerprint = {first}");
    service.database.execute(&age).await;
    assert_eq!(found(&service, "name=log4j-core&at=30m").await, ["prod a 2.14.1"]);
    for at in ["now", "2h", "2026-01-01"] {
        assert_eq!(found(&service, &format!("name=log4j-core&at={at}")).await, [""; 0], "{at}");
    }
}

async fn bill_of_a_platform_counts_for_its_image_index(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "sbom", "sbom", 'a', bill(&[LOG4J_OLD])).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'b')])).await.expect(201);
    assert_eq!(found(&service, "name=log4j-core").await, [""; 0]);
    for insert in [
        format!(
            "INSERT INTO image_indexes (organization, id, fingerprint, flow, reported_by, created_at)
             SELECT organization, id, {}, flow, reported_by, created_at FROM attestations",
            service.database.bytes(&digest('b'))
        ),
        format!(
            "INSERT INTO image_manifests (organization, image_index, fingerprint, platform, flow, created_at, is_recent)
             SELECT organization, fingerprint, {}, 'linux/amd64', flow, created_at, TRUE FROM image_indexes",
            service.database.bytes(&digest('a'))
        ),
    ] {
        service.database.execute(&insert).await;
    }
    assert_eq!(found(&service, "name=log4j-core").await, ["prod b 2.14.1"]);
}

async fn bill_of_a_name_counts_for_the_artifact_that_is_reported_later(database: Database) {
    let service = TestService::start(database).await;
    let data = json!({"attestation_name": "sbom", "is_compliant": true, "target_artifacts": ["image"]});
    let form = form(&data).part("attachment_file", Part::text(bill(&[LOG4J_OLD])).file_name("bom.json"));
    let attest =
        service.request(Method::POST, ATTESTER, "/attestations/acme/cart/trail/t/sbom").multipart(form);
    Response::from_request(attest).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(found(&service, "name=log4j-core").await, [""; 0]);
    let artifact = json!({"fingerprint": digest('a'), "filename": "cart:1", "git_commit": "c".repeat(40),
                          "build_url": "https://ci.example.com/1", "trail_name": "t", "template_reference_name": "image"});
    let request = service.request(Method::POST, ATTESTER, "/artifacts/acme/cart");
    let request = request.header("Content-Type", "application/json").body(artifact.to_string());
    Response::from_request(request).await.expect(201);
    assert_eq!(found(&service, "name=log4j-core").await, ["prod a 2.14.1"]);
}

async fn packages_are_listed_page_by_page(database: Database) {
    let service = TestService::start(database).await;
    let purls: Vec<_> = (0..250).map(|n| format!("pkg:npm/cart@1.0.{n}")).collect();
    attest(&service, "sbom", "sbom", 'a', bill(&purls.iter().map(String::as_str).collect::<Vec<_>>())).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = service.read(&format!("/packages/acme?name=cart{after}")).await;
        assert_eq!(page["matches"], 250);
        listed.extend(
            page["data"].as_array().unwrap().iter().map(|found| found["package"]["purl"].to_string()),
        );
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(listed.len(), 250);
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 250);
    let outcome = service.program(READER, "search --package cart -o json").await;
    let printed: Value = serde_json::from_str(&outcome.expect(0, &[]).stdout).unwrap();
    assert_eq!(printed["data"].as_array().unwrap().len(), 250);
}

async fn file_that_is_no_bill_is_attested_with_a_warning(database: Database) {
    let service = TestService::start(database).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bom.json");
    let command = format!(
        "attest sbom {} --flow cart --trail t --fingerprint {} --working-copy {}",
        file.display(),
        digest('a'),
        folder.path().display()
    );
    for (content, expected) in [
        (bill(&[LOG4J_OLD]), "attested sbom in cart/t: CycloneDX 1.6, 1 package"),
        (bill(&[]), "attested as a file, not read as a bill of materials: the CycloneDX 1.6 has no packages"),
        (bill(&[LOG4J_OLD]).replace("1.6", "9.9"), "CycloneDX 9.9 is not supported"),
        ("notes".to_owned(), "expected CycloneDX or SPDX in JSON"),
    ] {
        std::fs::write(&file, &content).unwrap();
        let outcome = service.program(ATTESTER, &command).await;
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(
            format!("{}{}", outcome.stdout, outcome.stderr).contains(expected),
            "{expected}: {outcome:?}"
        );
    }
    assert_eq!(service.read("/attestations/acme/cart").await["data"].as_array().unwrap().len(), 4);
    // The latest attestation counts.
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(found(&service, "name=log4j-core").await, [""; 0]);
}

async fn packages_are_removed_with_the_file(database: Database) {
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Limits::default() };
    let bootstrap = bootstrap(1, "    attachmentRetention: 1000d");
    let options = Options { limits, bootstrap, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    attest(&service, "sbom", "old", 'a', bill(&[LOG4J_OLD, LOG4J_NEW])).await;
    attest(&service, "sbom", "new", 'a', bill(&[LOG4J_NEW])).await;
    for table in ["attestations", "attachments"] {
        let first = format!("created_at = (SELECT MIN(created_at) FROM {table})");
        let age = format!("UPDATE {table} SET created_at = created_at - 86486400000000 WHERE {first}");
        service.database.execute(&age).await;
    }
    let versions = "SELECT version FROM packages ORDER BY version";
    eventually("the package of the old file is removed", async || {
        service.database.rows(versions).await == ["2.24.0"]
    })
    .await;
    assert_eq!(service.database.rows("SELECT format FROM bills").await, ["CycloneDX 1.6"]);
    // The file is read again.
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(found(&service, "name=log4j-core").await, ["prod a 2.24.0"]);
    attest(&service, "sbom", "old", 'b', bill(&[LOG4J_OLD, LOG4J_NEW])).await;
    assert_eq!(service.database.rows(versions).await, ["2.14.1", "2.24.0"]);
    // Also for what was attested before the removal.
    let mut listed = found(&service, "name=log4j-core").await;
    listed.sort();
    assert_eq!(listed, ["prod a 2.14.1", "prod a 2.24.0"]);
}

crate::service::on_both!(
    package_is_found_where_its_image_runs,
    package_is_found_at_a_time_of_the_past,
    bill_of_a_platform_counts_for_its_image_index,
    bill_of_a_name_counts_for_the_artifact_that_is_reported_later,
    packages_are_listed_page_by_page,
    packages_are_removed_with_the_file,
);

crate::service::on_sqlite!(file_that_is_no_bill_is_attested_with_a_warning);
