//! The page of an attestation.

use reqwest::multipart::Part;
use serde_json::{Value, json};

use crate::service::browser::{Browser, shows};
use crate::service::{ADMIN, Database, READER, Running, STRANGER, digest, form};

const TRAIL: &str = "/ui/acme/flows/cart/trails/t-1";

/// Attests, and tells the attestation's page.
async fn attested(service: &Running, attestation: &Value, file: Option<(&str, Vec<u8>)>) -> String {
    let file = file.map(|(name, content)| Part::bytes(content).file_name(name.to_owned()));
    let form = match file {
        Some(file) => form(attestation).part("attachment_file", file),
        None => form(attestation),
    };
    service.attest(ADMIN, "cart", "t-1", form).await.expect(201);
    let listed = service.read("/attestations/acme/cart").await;
    format!("{TRAIL}/attestations/{}", listed["data"][0]["attestation_id"].as_str().unwrap())
}

fn results(failures: u32) -> Value {
    json!([
        {"name": "fine suite", "failures": 0, "errors": 0, "total": 5, "duration": 1.25},
        {"name": "broken suite", "failures": failures, "errors": 0, "skipped": 1, "total": 9},
    ])
}

const XML: &str = r#"<testsuites><testsuite name="broken suite">
    <testcase classname="Cart" name="keeps what was put in"><failure message="3 is not 4">at cart.rs:12
at main.rs:3</failure></testcase>
    <testcase name="works"/></testsuite></testsuites>"#;

async fn an_attestation_shows_what_went_wrong_first(database: Database) {
    let service = Running::start(database).await;
    let unit = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": results(1),
        "description": "first line\nsecond line", "origin_url": "https://ci.example.com/1",
        "external_urls": {"ticket": "https://example.com/T-1"}, "user_data": {"exact": 1.5},
    });
    let path = attested(&service, &unit, Some(("junit.xml", XML.into()))).await;
    let page = Browser::looks(&service, &path).await;
    let in_order = [
        "keeps what was put in",
        "<bdi>Cart</bdi>",
        "3 is not 4",
        "at cart.rs:12</bdi><br><bdi>at main.rs:3",
        "14 tests: 1 failed, 1 skipped, 12 passed",
        "broken suite</bdi></th>",
        "fine suite</bdi></th>",
        "1.250 s",
    ];
    let places: Vec<_> = in_order.iter().map(|text| page.find(text).expect(text)).collect();
    assert!(places.is_sorted(), "{places:?}: {page}");
    assert!(!page.contains("works"), "{page}");
    shows(
        &page,
        &[
            "first line</bdi><br><bdi>second line",
            r#"<a href="https://ci.example.com/1" rel="noreferrer">"#,
            r#"<a href="https://example.com/T-1" rel="noreferrer">"#,
            "&quot;exact&quot;:1.5",
            &format!("<bdi>junit.xml</bdi>, {} bytes", XML.len()),
            &format!(r#"<a href="/ui/acme/artifacts/{}">"#, digest('a')),
            &format!(r#"<a href="{TRAIL}">"#),
        ],
    );

    // A later one takes its place, and that is said.
    let fine = json!({"attestation_name": "unit", "junit_results": results(0)});
    let later = attested(&service, &fine, Some(("junit.xml", XML.into()))).await;
    shows(&Browser::looks(&service, &path).await, &["A later attestation of this name took its place."]);
    let page = Browser::looks(&service, &later).await;
    assert!(!page.contains("Went wrong") && !page.contains("keeps what"), "{page}");
}

async fn where_the_tests_cannot_be_told_that_is_said(database: Database) {
    let service = Running::start(database).await;
    let unit = json!({"attestation_name": "unit", "junit_results": results(2)});
    for (file, expected) in [
        (None, "No file came with it"),
        (Some(("notes.txt", b"all fine".to_vec())), "no JUnit XML"),
        (Some(("junit.xml", XML.into())), "The file tells of 1 of 2"),
    ] {
        let path = attested(&service, &unit, file).await;
        shows(&Browser::looks(&service, &path).await, &[expected]);
    }
}

async fn an_attestation_of_another_trail_or_organization_is_not_found(database: Database) {
    let service = Running::start(database).await;
    let path = attested(&service, &json!({"attestation_name": "unit", "junit_results": []}), None).await;
    shows(&Browser::looks(&service, &path).await, &["0 tests"]);
    let mut reader = Browser::signed_in(&service, READER).await;
    let nobody = format!("{TRAIL}/attestations/0197ab00-0000-7000-8000-000000000000");
    for path in
        [path.replace("t-1", "t-2"), path.replace("cart", "web"), nobody, format!("{TRAIL}/attestations/1")]
    {
        assert_eq!(reader.get(&path).await.status, 404, "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in [path.clone(), path.replace("acme", "stranger")] {
        assert_eq!(stranger.get(&path).await.status, 404, "{path}");
    }
}

crate::service::on_both!(an_attestation_shows_what_went_wrong_first);

crate::service::on_sqlite!(
    where_the_tests_cannot_be_told_that_is_said,
    an_attestation_of_another_trail_or_organization_is_not_found,
);
