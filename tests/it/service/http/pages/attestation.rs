//! The page of an attestation.

use reqwest::multipart::Part;
use serde_json::{Value, json};

use crate::service::support::browser::{Browser, assert_contains};
use crate::service::{ADMIN, Database, READER, STRANGER, TestService, digest, form};

const TRAIL: &str = "/ui/acme/flows/cart/trails/t-1";

/// Attests, and returns the path of the page.
async fn attested(service: &TestService, attestation: &Value, file: Option<(&str, Vec<u8>)>) -> String {
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

async fn attestation_shows_failed_tests_first(database: Database) {
    let service = TestService::start(database).await;
    let unit = json!({
        "attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": results(1),
        "description": "first line\nsecond line", "origin_url": "https://ci.example.com/1",
        "external_urls": {"ticket": "https://example.com/T-1"}, "user_data": {"exact": 1.5},
    });
    let path = attested(&service, &unit, Some(("junit.xml", XML.into()))).await;
    let page = Browser::read_page(&service, &path).await;
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
    assert_contains(
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

    // A later attestation supersedes it.
    let fine = json!({"attestation_name": "unit", "junit_results": results(0)});
    let later = attested(&service, &fine, Some(("junit.xml", XML.into()))).await;
    assert_contains(
        &Browser::read_page(&service, &path).await,
        &["Superseded by a later attestation of the same name."],
    );
    let page = Browser::read_page(&service, &later).await;
    assert!(!page.contains("Failed tests") && !page.contains("keeps what"), "{page}");
}

async fn reason_is_shown_when_failed_tests_are_not_available(database: Database) {
    let service = TestService::start(database).await;
    let unit = json!({"attestation_name": "unit", "junit_results": results(2)});
    for (file, expected) in [
        (None, "no file was attached"),
        (Some(("notes.txt", b"all fine".to_vec())), "the attached file is not JUnit XML"),
        (Some(("junit.xml", XML.into())), "The attached file contains 1 of 2 failed tests."),
    ] {
        let path = attested(&service, &unit, file).await;
        assert_contains(&Browser::read_page(&service, &path).await, &[expected]);
    }
}

async fn attestation_of_another_trail_or_organization_is_not_found(database: Database) {
    let service = TestService::start(database).await;
    let path = attested(&service, &json!({"attestation_name": "unit", "junit_results": []}), None).await;
    assert_contains(&Browser::read_page(&service, &path).await, &["0 tests"]);
    let mut reader = Browser::signed_in(&service, READER).await;
    let unknown = format!("{TRAIL}/attestations/0197ab00-0000-7000-8000-000000000000");
    for path in
        [path.replace("t-1", "t-2"), path.replace("cart", "web"), unknown, format!("{TRAIL}/attestations/1")]
    {
        assert_eq!(reader.get(&path).await.status, 404, "{path}");
    }
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in [path.clone(), path.replace("acme", "stranger")] {
        assert_eq!(stranger.get(&path).await.status, 404, "{path}");
    }
}

crate::service::on_both!(attestation_shows_failed_tests_first);

crate::service::on_sqlite!(
    reason_is_shown_when_failed_tests_are_not_available,
    attestation_of_another_trail_or_organization_is_not_found,
);
