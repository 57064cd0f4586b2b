//! Operations 1 and 2: trails and attestations.

use serde_json::{Value, json};

use crate::service::support::browser::Browser;
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, ATTESTER, Database, READER, TestService, digest, form};

async fn attest(service: &TestService, flow: &str, trail: &str, name: &str, digit: Option<char>) {
    let mut data =
        json!({"attestation_name": name, "junit_results": [{"failures": 0, "errors": 0, "total": 1}]});
    if let Some(digit) = digit {
        data["artifact_fingerprint"] = json!(digest(digit));
    }
    service.attest(ADMIN, flow, trail, form(&data)).await.expect(201);
}

fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

const FLOWS: &str = "    flows:
      - name: cart
        tags: {team: shop, tier: \"1=gold\"}
        template:
          attestations: [{name: unit, type: junit}]
          artifacts: [{name: image, attestations: [{name: e2e, type: junit}]}]
      - {name: web, tags: {team: shop}}";

async fn trails_are_listed_newest_first_and_filtered(database: Database) {
    let options = Options { bootstrap: bootstrap(1, FLOWS), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    attest(&service, "cart", "one", "unit", Some('a')).await;
    attest(&service, "web", "two", "unit", Some('b')).await;
    attest(&service, "pay", "three", "unit", None).await;
    // A new attestation of an old trail does not change the order.
    attest(&service, "cart", "one", "lint", Some('c')).await;
    for (query, expected) in [
        ("", &["three", "two", "one"][..]),
        ("?flow=cart", &["one"]),
        ("?flow_tag=team=shop", &["two", "one"]),
        ("?flow_tag=tier=1=gold", &["one"]),
        ("?flow_tag=team=", &[]),
        ("?flow_tag=team=shop&flow=web", &["two"]),
        (&format!("?fingerprint={}", digest('a')), &["one"]),
        (&format!("?fingerprint={}", digest('c')), &["one"]),
        (&format!("?fingerprint={}&flow=web", digest('a')), &[]),
        (&format!("?fingerprint={}", digest('d')), &[]),
        ("?per_page=2", &["three", "two"]),
        ("?per_page=2&page=2", &["one"]),
        ("?per_page=2&page=3", &[]),
        ("?page=4294967295&per_page=500", &[]),
    ] {
        let list = service.read(&format!("/trails/acme{query}")).await;
        assert_eq!(names(&list), expected, "{query}");
        assert_eq!(list.get("pagination").is_some(), query.contains("page="), "{query}: {list}");
    }
    service.get(READER, "/trails/acme?flow=nowhere").await.expect(404);
    let paged = service.read("/trails/acme?per_page=2&page=2").await;
    assert_eq!(paged["pagination"], json!({"total": 3, "page": 2, "per_page": 2, "page_count": 2}));
}

async fn trail_is_evaluated_against_the_template_of_its_flow(database: Database) {
    let options = Options { bootstrap: bootstrap(1, FLOWS), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    attest(&service, "cart", "t", "unit", None).await;
    attest(&service, "cart", "t", "extra", None).await;
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!(trail["is_compliant"], false);
    assert_eq!(trail["template"]["version"], 1);
    let content: Value = serde_json::from_str(trail["template"]["content"].as_str().unwrap()).unwrap();
    assert_eq!(content, trail["template"]["trail"]);
    let status = &trail["compliance_status"];
    let statuses: Vec<_> = status["attestations_statuses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| {
            (s["attestation_name"].as_str().unwrap(), s["is_compliant"] == true, s["unexpected"] == true)
        })
        .collect();
    assert_eq!(statuses, [("unit", true, false), ("extra", true, true)]);
    assert_eq!(status["artifacts_statuses"]["image"]["is_compliant"], false);

    let data = json!({"attestation_name": "e2e", "target_artifacts": ["image"],
                      "junit_results": [{"failures": 0, "errors": 0, "total": 1}]});
    service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(201);
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!(trail["is_compliant"], true, "{trail:#}");

    // A changed template is a new version and applies to existing trails.
    let stricter = FLOWS
        .replace("[{name: unit, type: junit}]", "[{name: unit, type: junit}, {name: scan, type: \"*\"}]");
    service.reload(&bootstrap(2, &stricter)).await;
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!((&trail["is_compliant"], &trail["template"]["version"]), (&json!(false), &json!(2)));
    // Without a template, all existing attestations must pass.
    service.reload(&bootstrap(3, "")).await;
    let trail = &service.read("/trails/acme").await["data"][0];
    assert_eq!((trail["is_compliant"].clone(), trail.get("template")), (json!(true), None));
    assert_eq!(trail["flow"]["tags"], json!({}));
}

async fn attestations_are_listed_by_flow_and_time(database: Database) {
    let service = TestService::start(database).await;
    for name in ["one", "two", "three"] {
        attest(&service, "cart", "t", name, None).await;
    }
    attest(&service, "web", "t", "other", None).await;
    // Sets the recorded times to a second, its last microsecond and the next second.
    for (name, micros) in [("one", 1_000_000_000), ("two", 1_000_999_999), ("three", 1_001_000_000)] {
        service
            .database
            .execute(&format!("UPDATE attestations SET created_at = {micros} WHERE name = '{name}'"))
            .await;
    }
    for (query, expected) in [
        ("", &["three", "two", "one"][..]),
        ("?from_timestamp=1000", &["three", "two", "one"]),
        ("?from_timestamp=1001", &["three"]),
        ("?to_timestamp=1000", &["two", "one"]),
        ("?from_timestamp=1000&to_timestamp=1000", &["two", "one"]),
        ("?to_timestamp=999", &[]),
        ("?from_timestamp=1001&to_timestamp=1000", &[]),
        ("?to_timestamp=9223372036854775807", &["three", "two", "one"]),
        ("?from_timestamp=9223372036854775807", &[]),
        ("?per_page=1&page=2", &["two"]),
    ] {
        let list = service.read(&format!("/attestations/acme/cart{query}")).await;
        let names: Vec<_> = list["data"].as_array().unwrap().iter().map(|a| &a["attestation_name"]).collect();
        assert_eq!(names, expected, "{query}");
        assert!(list["pagination"]["total"].is_u64(), "{query}");
    }
    let created =
        service.read("/attestations/acme/cart?per_page=1&page=2").await["data"][0]["created_at"].clone();
    assert_eq!(created, json!(1_000.999_999));
    service.get(READER, "/attestations/acme/nowhere").await.expect(404);
}

async fn oversized_page_is_rejected_and_smaller_pages_are_complete(database: Database) {
    let service = TestService::start(database).await;
    // Each character takes six bytes in JSON.
    let control = "\u{1}".repeat(65_536);
    let mut data = json!({
        "attestation_name": "unit", "junit_results": [], "description": control, "origin_url": control,
    });
    for n in 0..30 {
        data["user_data"] = json!({"text": "x".repeat(65_000), "n": n});
        service.attest(ADMIN, "cart", "large", form(&data)).await.expect(201);
    }
    let rejected = service.get(READER, "/attestations/acme/cart?per_page=30").await;
    rejected.assert_field_error("per_page", "the page would have more than 20 MB");
    let mut listed = 0;
    for page in 1..=2 {
        let list = service.read(&format!("/attestations/acme/cart?page={page}")).await;
        assert_eq!(list["pagination"]["total"], 30);
        let attestations = list["data"].as_array().unwrap();
        assert!(attestations.iter().all(|attestation| attestation["description"] == control));
        listed += attestations.len();
    }
    assert_eq!(listed, 30);

    // A target takes a few bytes in a request and hundreds in the response.
    let targets: Vec<_> = (0..1_000).map(|n| format!("{n}")).collect();
    for trail in ["one", "two"] {
        for n in 0..45 {
            let data =
                json!({"attestation_name": n.to_string(), "junit_results": [], "target_artifacts": targets});
            service.attest(ADMIN, "web", trail, form(&data)).await.expect(201);
        }
    }
    let rejected = service.get(READER, "/trails/acme?flow=web").await;
    rejected.assert_field_error("per_page", "the page would have more than 20 MB");
    for page in 1..=2 {
        let path = format!("/trails/acme?flow=web&per_page=1&page={page}");
        let response = service.get(READER, &path).await.expect(200);
        assert!(response.text.len() < 20_000_000, "{}", response.text.len());
        let statuses = &response.json()["data"][0]["compliance_status"]["artifacts_statuses"];
        assert_eq!(statuses["999"]["attestations_statuses"].as_array().unwrap().len(), 45);
    }

    // A trail that is too large by itself is on no page, and does not affect other pages.
    for n in 45..70 {
        let data =
            json!({"attestation_name": n.to_string(), "junit_results": [], "target_artifacts": targets});
        service.attest(ADMIN, "web", "two", form(&data)).await.expect(201);
    }
    let rejected = service.get(READER, "/trails/acme?flow=web&per_page=1").await;
    rejected.assert_field_error("per_page", "the page would have more than 20 MB");
    service.get(READER, "/trails/acme?flow=web&per_page=1&page=2").await.expect(200);
    let mut browser = Browser::signed_in(&service, READER).await;
    let page = browser.get("/ui/acme/flows/web/trails/two").await;
    assert!(page.status == 400 && page.text.contains("the trail is too large"), "{page:?}");
}

async fn invalid_or_unknown_parameter_is_rejected_by_name(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "cart", "t", "unit", None).await;
    for (path, field, message) in [
        ("/trails/acme?page=0", "page", "expected a page from 1 to"),
        ("/trails/acme?page=-1", "page", "expected a page from 1 to"),
        ("/trails/acme?page=x", "page", "expected an integer"),
        ("/trails/acme?page=", "page", "expected an integer"),
        ("/trails/acme?page=99999999999999999999", "page", "expected an integer"),
        ("/trails/acme?per_page=0", "per_page", "1 to 500"),
        ("/trails/acme?per_page=501", "per_page", "1 to 500"),
        ("/trails/acme?flow=-x", "flow", "letter or digit"),
        ("/trails/acme?flow_tag=team", "flow_tag", "expected key=value"),
        ("/trails/acme?flow_tag==x", "flow_tag", "expected key=value"),
        ("/trails/acme?flow_tag=a=%00", "flow_tag", "NUL"),
        ("/trails/acme?fingerprint=abc", "fingerprint", "64 lowercase hex"),
        ("/trails/acme?flwo=cart", "flwo", "one of flow, flow_tag"),
        ("/trails/acme?page=1&page=2", "page", "twice"),
        ("/attestations/acme/cart?from_timestamp=-1", "from_timestamp", "expected seconds since 1970"),
        ("/attestations/acme/cart?to_timestamp=1.5", "to_timestamp", "expected an integer"),
        ("/attestations/acme/cart?flow=cart", "flow", "unknown parameter"),
        ("/attestations/acme/-x", "flow_name", "letter or digit"),
        ("/repos/acme/live-artifacts/a?provider=a%0Ab", "provider", "control or invisible characters"),
    ] {
        service.get(READER, path).await.assert_field_error(field, message);
    }
}

crate::service::on_both!(
    trails_are_listed_newest_first_and_filtered,
    trail_is_evaluated_against_the_template_of_its_flow,
    attestations_are_listed_by_flow_and_time,
    oversized_page_is_rejected_and_smaller_pages_are_complete,
);

crate::service::on_sqlite!(invalid_or_unknown_parameter_is_rejected_by_name,);
