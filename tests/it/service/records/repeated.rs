//! Requests that a client repeats because it did not get the response.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use reqwest::multipart::Part;
use serde_json::{Value, json};
use service::Limits;

use crate::service::identity::issuers::TestClock;
use crate::service::support::test_service::{Options, eventually};
use crate::service::{ADMIN, ATTESTER, Database, Response, TestService, digest, form};

const UNIT: &str = "/attestations/acme/cart/trail/t/junit";

fn unit(passed: u32, artifacts: &[char]) -> Value {
    let artifacts: Vec<_> = artifacts.iter().map(|digit| digest(*digit)).collect();
    json!({
        "attestation_name": "unit", "junit_results": [{"failures": 0, "errors": 0, "total": passed}],
        "target_artifacts": artifacts,
    })
}

async fn attest_with(service: &TestService, token: &str, key: &str, path: &str, data: &Value) -> Response {
    let request = service.request(Method::POST, token, path).header("Idempotency-Key", key);
    Response::from_request(request.multipart(form(data))).await
}

async fn attest(service: &TestService, token: &str, data: &Value) {
    service.attest(token, "cart", "t", form(data)).await.expect(201);
}

async fn recorded(service: &TestService) -> u64 {
    service.read("/attestations/acme/cart").await["pagination"]["total"].as_u64().unwrap()
}

async fn request_with_a_key_has_one_effect_for_a_day(database: Database) {
    let (clock, time) = TestClock::new();
    let service = TestService::start_with(database, Options { clock, ..Options::default() }).await;
    let data = unit(1, &['a']);
    let first = attest_with(&service, ATTESTER, "8e03978e", UNIT, &data).await.expect(201);
    // Also after another result, and as a string of structured fields.
    attest(&service, ATTESTER, &unit(2, &['a'])).await;
    for key in ["8e03978e", "\"8e03978e\""] {
        let again = attest_with(&service, ATTESTER, key, UNIT, &data).await.expect(201);
        assert_eq!(again.text, first.text);
    }
    assert_eq!(recorded(&service).await, 2);
    for (path, data) in [(UNIT, &unit(3, &['a'])), ("/attestations/acme/cart/trail/u/junit", &data)] {
        let refused = attest_with(&service, ATTESTER, "8e03978e", path, data).await.expect(422);
        assert!(refused.text.contains("this Idempotency-Key belongs to another request"), "{refused:?}");
    }
    assert_eq!(recorded(&service).await, 2);
    // Keys of another token, and another key for an equal request.
    attest_with(&service, ADMIN, "8e03978e", UNIT, &unit(3, &['a'])).await.expect(201);
    attest_with(&service, ADMIN, "new", UNIT, &unit(3, &['a'])).await.expect(201);
    assert_eq!(recorded(&service).await, 4);
    time.advance(86_400);
    attest_with(&service, ATTESTER, "8e03978e", UNIT, &unit(5, &['a'])).await.expect(201);
    assert_eq!(recorded(&service).await, 5);
    for invalid in ["", "two words", &"k".repeat(256)] {
        let refused = attest_with(&service, ATTESTER, invalid, UNIT, &data).await.expect(400);
        assert!(refused.text.contains("invalid header Idempotency-Key"), "{refused:?}");
    }
}

async fn request_without_an_effect_does_not_use_up_its_key(database: Database) {
    let service = TestService::start(database).await;
    let generic = json!({"attestation_name": "scan", "is_compliant": true});
    let path = "/attestations/acme/cart/trail/t/generic";
    attest_with(&service, ATTESTER, "k", path, &generic).await.expect(404);
    attest(&service, ATTESTER, &unit(1, &[])).await;
    for _ in 0..2 {
        attest_with(&service, ATTESTER, "k", path, &generic).await.expect(201);
    }
    assert_eq!(recorded(&service).await, 2);
}

async fn requests_with_one_key_that_race_are_answered_alike(database: Database) {
    let service = TestService::start(database).await;
    let data = unit(1, &['a']);
    let racing = (0..8).map(|_| attest_with(&service, ATTESTER, "k", UNIT, &data));
    for response in join_all(racing).await {
        assert_eq!(response.expect(201).text, "\"Creation Success\"");
    }
    assert_eq!(recorded(&service).await, 1);
    // Another request with the key is rejected, and not recorded as well.
    let others = (2..6).map(|passed| unit(passed, &['a'])).collect::<Vec<_>>();
    let racing = others.iter().map(|data| attest_with(&service, ATTESTER, "other", UNIT, data));
    let mut statuses: Vec<_> = join_all(racing).await.iter().map(|it| it.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 422, 422, 422]);
    assert_eq!(recorded(&service).await, 2);
}

async fn equal_request_without_a_key_is_recorded_once_unless_a_result_came_between(database: Database) {
    let (clock, time) = TestClock::new();
    let service = TestService::start_with(database, Options { clock, ..Options::default() }).await;
    let [one, two] = [1, 2].map(|passed| unit(passed, &['a']));
    let mut expected = 0;
    for (data, adds) in [
        (&one, 1),
        (&one, 0),
        (&two, 1),
        // Not the newest one anymore.
        (&one, 1),
        (&one, 0),
        // Another artifact, and an equal result of the first again.
        (&unit(1, &['b']), 1),
        (&one, 0),
        // Both artifacts, and then one of them.
        (&unit(1, &['a', 'b']), 1),
        (&unit(1, &['a', 'b']), 0),
        (&one, 1),
        // Without an artifact.
        (&unit(1, &[]), 1),
        (&unit(1, &[]), 0),
        (&one, 0),
    ] {
        attest(&service, ATTESTER, data).await;
        expected += adds;
        assert_eq!(recorded(&service).await, expected, "{data}");
    }
    // Another trail, token, and file.
    service.attest(ATTESTER, "cart", "u", form(&one)).await.expect(201);
    service.attest(ADMIN, "cart", "u", form(&one)).await.expect(201);
    let file = || form(&one).part("attachment_file", Part::text("<testsuite/>").file_name("r.xml"));
    for _ in 0..2 {
        service.attest(ADMIN, "cart", "u", file()).await.expect(201);
    }
    assert_eq!(recorded(&service).await, expected + 3);
    time.advance(3_601);
    service.attest(ADMIN, "cart", "u", file()).await.expect(201);
    assert_eq!(recorded(&service).await, expected + 4);
}

async fn artifact_that_is_reported_again_adds_no_row(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, ATTESTER, &unit(1, &[])).await;
    let reports = "SELECT CAST(COUNT(*) AS TEXT) FROM reported_artifacts";
    let mut expected = 0;
    for (digit, file, adds) in [
        ('a', "cart.jar", 1),
        ('a', "cart.jar", 0),
        ('a', "other.jar", 1),
        ('a', "cart.jar", 1),
        // Another artifact takes the name, and the first takes it again.
        ('b', "cart.jar", 1),
        ('a', "cart.jar", 1),
        ('a', "cart.jar", 0),
    ] {
        let body = json!({
            "fingerprint": digest(digit), "filename": file, "trail_name": "t", "template_reference_name": "app",
            "git_commit": "c".repeat(40), "build_url": "https://ci.example.com/1",
        });
        let request = service.request(Method::POST, ATTESTER, "/artifacts/acme/cart");
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = Response::from_request(request).await.expect(201);
        assert_eq!(response.text, r#"{"message":"OK"}"#);
        expected += adds;
        assert_eq!(service.database.rows(reports).await, [expected.to_string()], "{digit} {file}");
    }
}

async fn key_is_removed_after_a_day(database: Database) {
    let (clock, time) = TestClock::new();
    let limits = Limits { retention_interval: Duration::from_millis(20), ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, clock, ..Options::default() }).await;
    attest_with(&service, ATTESTER, "old", UNIT, &unit(1, &[])).await.expect(201);
    time.advance(80_000);
    attest_with(&service, ATTESTER, "new", UNIT, &unit(2, &[])).await.expect(201);
    let keys = "SELECT CAST(COUNT(*) AS TEXT) FROM idempotency_keys";
    assert_eq!(service.database.rows(keys).await, ["2"]);
    time.advance(6_401);
    eventually("the older key is removed", async || service.database.rows(keys).await == ["1"]).await;
}

crate::service::on_both!(
    request_with_a_key_has_one_effect_for_a_day,
    request_without_an_effect_does_not_use_up_its_key,
    requests_with_one_key_that_race_are_answered_alike,
    equal_request_without_a_key_is_recorded_once_unless_a_result_came_between,
    artifact_that_is_reported_again_adds_no_row,
    key_is_removed_after_a_day,
);
