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

/// An attestation of `unit`: the trail, whether it passes, and the artifacts.
struct Attest {
    trail: &'static str,
    passes: bool,
    artifacts: &'static str,
}

impl Attest {
    /// Reads "t fail ab".
    fn parse(text: &'static str) -> Self {
        let [trail, result, artifacts] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
        Self { trail, passes: result == "pass", artifacts: artifacts.trim_matches('-') }
    }

    async fn send(&self, service: &TestService, flow: &str, key: Option<String>) {
        let artifacts: Vec<_> = self.artifacts.chars().map(digest).collect();
        let failures = u32::from(!self.passes);
        let data = json!({
            "attestation_name": "unit", "junit_results": [{"failures": failures, "errors": 0, "total": 3}],
            "target_artifacts": artifacts,
        });
        let path = format!("/attestations/acme/{flow}/trail/{}/junit", self.trail);
        let request = service.request(Method::POST, ADMIN, &path).multipart(form(&data));
        let request = match key {
            Some(key) => request.header("Idempotency-Key", key),
            None => request,
        };
        Response::from_request(request).await.expect(201);
    }
}

/// The compliance of the trails of a flow, and what the gate says of its artifacts.
async fn verdicts(service: &TestService, flow: &str) -> Vec<String> {
    let trails = service.read(&format!("/trails/acme?flow={flow}")).await;
    let of_trail = |trail: &Value| format!("{} {}", trail["name"], trail["compliance_state"]);
    let mut verdicts: Vec<_> = trails["data"].as_array().unwrap().iter().map(of_trail).collect();
    for artifact in ['a', 'b'] {
        let path = format!("/asserts/acme/fingerprint/{}?flow_name={flow}", digest(artifact));
        let gate = service.get(ADMIN, &path).await;
        if gate.status != 404 {
            let gate = gate.expect(200).json();
            verdicts.push(format!("{artifact} {} {}", gate["compliant"], gate["flows"][0]["trail_name"]));
        }
    }
    verdicts
}

async fn equal_request_without_a_key_is_recorded_again_if_that_changes_a_verdict(database: Database) {
    let service = TestService::start(database).await;
    for (case, (sent, expected)) in [
        ("t fail a, t fail a", 1),
        ("t fail a, t pass a, t fail a", 3),
        ("t pass a, t fail a, t pass a", 3),
        // The newest one of the artifact, whatever another one has.
        ("t fail a, t fail b, t fail a", 2),
        ("t pass a, t pass b, t pass a", 2),
        ("t pass a, t fail b, t pass b, t pass a", 3),
        // The other one counts for the trail.
        ("t fail a, t pass b, t fail a", 3),
        ("t pass a, t fail b, t pass a", 3),
        ("t fail -, t pass a, t fail -", 3),
        ("t pass -, t pass a, t pass -", 3),
        ("t fail a, t pass -, t fail a", 3),
        // Only some of the artifacts have a newer one.
        ("t fail ab, t fail ab", 1),
        ("t fail ab, t pass a, t fail ab", 3),
        ("t fail ab, t pass b, t fail ab", 3),
        ("t fail b, t fail ab, t fail b", 3),
        // Another trail.
        ("t fail a, u pass a, t fail a", 3),
        ("t fail a, u pass b, t fail a", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let (once, each) = (format!("once-{case}"), format!("each-{case}"));
        for (n, attest) in sent.split(", ").map(Attest::parse).enumerate() {
            attest.send(&service, &once, None).await;
            attest.send(&service, &each, Some(format!("{case}-{n}"))).await;
        }
        let list = service.read(&format!("/attestations/acme/{once}")).await;
        assert_eq!(list["pagination"]["total"], expected, "{sent}");
        assert_eq!(verdicts(&service, &once).await, verdicts(&service, &each).await, "{sent}");
    }
}

async fn equal_request_of_an_artifact_is_recorded_again_after_one_in_another_trail(database: Database) {
    let service = TestService::start(database).await;
    let scan = json!({
        "attestation_name": "scan", "junit_results": [{"failures": 0, "errors": 0, "total": 1}],
        "target_artifacts": [digest('a')],
    });
    let one = unit(1, &['a']);
    attest(&service, ATTESTER, &one).await;
    service.attest(ATTESTER, "cart", "u", form(&scan)).await.expect(201);
    // Its last trail has the template that counts.
    attest(&service, ATTESTER, &one).await;
    assert_eq!(recorded(&service).await, 3);
}

struct Report {
    artifact: char,
    file: &'static str,
    trail: Option<&'static str>,
    name: Option<&'static str>,
}

impl Report {
    async fn send(&self, service: &TestService, key: Option<&str>) {
        let mut body = json!({
            "fingerprint": digest(self.artifact), "filename": self.file,
            "git_commit": "c".repeat(40), "build_url": "https://ci.example.com/1",
        });
        for (field, value) in [("trail_name", self.trail), ("template_reference_name", self.name)] {
            if let Some(value) = value {
                body[field] = value.into();
            }
        }
        let request = service.request(Method::POST, ATTESTER, "/artifacts/acme/cart");
        let mut request = request.header("Content-Type", "application/json").body(body.to_string());
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let response = Response::from_request(request).await.expect(201);
        assert_eq!(response.text, r#"{"message":"OK"}"#);
    }
}

async fn artifact_that_is_reported_again_adds_no_row(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, ATTESTER, &unit(1, &['a'])).await;
    service.attest(ATTESTER, "cart", "u", form(&unit(1, &[]))).await.expect(201);
    let reports = "SELECT CAST(COUNT(*) AS TEXT) FROM reported_artifacts";
    let report = |artifact, file, place| {
        let (trail, name) = match place {
            "" => (None, None),
            place => (Some(place), Some("app")),
        };
        Report { artifact, file, trail, name }
    };
    let mut expected = 0;
    for (n, (artifact, file, place, adds)) in [
        // Without a trail, also of an artifact that is attested in one.
        ('a', "cart.jar", "", 1),
        ('a', "cart.jar", "", 0),
        ('a', "cart.jar", "t", 1),
        ('a', "cart.jar", "t", 0),
        ('a', "cart.jar", "", 0),
        ('a', "cart.jar", "t", 0),
        // Another file, which is the last one whatever its trail.
        ('a', "other.jar", "", 1),
        ('a', "other.jar", "", 0),
        ('a', "cart.jar", "t", 1),
        ('a', "other.jar", "t", 1),
        ('a', "cart.jar", "t", 1),
        // Another artifact takes the name, and the first takes it again.
        ('b', "cart.jar", "t", 1),
        ('a', "cart.jar", "", 0),
        ('a', "cart.jar", "t", 1),
        ('a', "cart.jar", "t", 0),
        // Another trail, and the first again.
        ('a', "cart.jar", "u", 1),
        ('a', "cart.jar", "", 0),
        ('a', "cart.jar", "t", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let report = report(artifact, file, place);
        let (first, second) = (format!("{n}-1"), format!("{n}-2"));
        let keys: [Option<&str>; 4] = [None, Some(&first), Some(&first), Some(&second)];
        for key in keys {
            report.send(&service, key).await;
        }
        expected += adds;
        let rows = service.database.rows(reports).await;
        assert_eq!(rows, [expected.to_string()], "{n}: {artifact} {file} {place:?}");
    }
}

async fn retry_of_a_report_that_added_no_row_has_no_effect(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, ATTESTER, &unit(1, &[])).await;
    let [a, b] =
        ['a', 'b'].map(|artifact| Report { artifact, file: "cart.jar", trail: Some("t"), name: Some("app") });
    a.send(&service, None).await;
    a.send(&service, Some("k")).await;
    b.send(&service, None).await;
    a.send(&service, Some("k")).await;
    let named = "SELECT name FROM reported_artifacts ORDER BY created_at";
    assert_eq!(service.database.rows(named).await.len(), 2);
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
    equal_request_without_a_key_is_recorded_again_if_that_changes_a_verdict,
    equal_request_of_an_artifact_is_recorded_again_after_one_in_another_trail,
    artifact_that_is_reported_again_adds_no_row,
    retry_of_a_report_that_added_no_row_has_no_effect,
    key_is_removed_after_a_day,
);
