//! The effect of a policy before it is attached.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::rules::operations::artifact;
use crate::service::rules::policies::{TESTED, UNIT, attach, attest, policy_file, put, run, verdicts};
use crate::service::{
    ADMIN, APPROVER, ATTESTER, Database, READER, REPORTER, Response, STRANGER, TestService, digest,
};

pub(crate) async fn send(service: &TestService, token: &str, body: &Value) -> Response {
    let request = service.request(Method::POST, token, "/policies/acme/check");
    Response::from_request(request.header("Content-Type", "application/json").body(body.to_string())).await
}

pub(crate) fn candidate(artifacts: &str) -> Value {
    json!({"policy_file": policy_file(artifacts), "environment_name": "prod"})
}

/// The effect, with the texts of its reasons.
async fn check(service: &TestService, body: &Value) -> Value {
    let mut effect = send(service, READER, body).await.expect(200).json();
    for artifact in effect["artifacts"].as_array_mut().unwrap() {
        for reason in artifact["reasons"].as_array_mut().unwrap() {
            *reason = reason["text"].take();
        }
    }
    effect
}

fn effect(digit: char, before: &str, after: &str, reasons: &[&str]) -> Value {
    json!({"name": format!("shop/cart:{digit}"), "fingerprint": digest(digit), "before": before, "after": after, "reasons": reasons})
}

async fn effect_of_an_added_and_of_a_replaced_policy_is_listed(database: Database) {
    let service = TestService::start(database).await;
    run(&service, "prod", "abc").await;
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    attest(&service, "cart", "t1", "lint", 'b', 0).await;
    put(&service, ADMIN, "rules", "provenance: {required: true}").await.expect(201);
    attach(&service, "prod", &["rules"]).await.expect(200);
    let stored = verdicts(&service).await;
    let missing = ["rules v1: no flow holds the artifact", "candidate v1: unit (junit) is missing"];
    let stricter = check(&service, &candidate(UNIT)).await;
    assert_eq!(
        stricter,
        json!({
            "environment": "prod", "at": null, "warning": null, "before": "NON-COMPLIANT", "after": "NON-COMPLIANT",
            "artifacts_total": 3, "changed_total": 1,
            "artifacts": [
                effect('b', "COMPLIANT", "NON-COMPLIANT", &["candidate v1: unit (junit) of the flow cart is missing"]),
                effect('c', "NON-COMPLIANT", "NON-COMPLIANT", &missing),
            ],
        })
    );
    // As the next version of the attached policy.
    let mut replaced = candidate("attestations: [{name: scan, type: snyk, if: '${{ exists(flow) }}'}]");
    replaced["policy_name"] = json!("rules");
    let replaced = check(&service, &replaced).await;
    let scan = ["rules v2: scan (snyk) of the flow cart is missing"];
    assert_eq!(
        replaced["artifacts"],
        json!([
            effect('a', "COMPLIANT", "NON-COMPLIANT", &scan),
            effect('b', "COMPLIANT", "NON-COMPLIANT", &scan),
            effect('c', "NON-COMPLIANT", "COMPLIANT", &[]),
        ])
    );
    // The check records nothing.
    assert_eq!(verdicts(&service).await, stored);
    assert_eq!(service.read("/policies/acme").await.as_array().unwrap().len(), 1);
    // The policy does what the check listed.
    put(&service, ADMIN, "tested", UNIT).await.expect(201);
    attach(&service, "prod", &["tested"]).await.expect(200);
    let compliance: Vec<_> =
        verdicts(&service).await.iter().map(|v| v.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(compliance, ["COMPLIANT", "NON-COMPLIANT", "NON-COMPLIANT"]);
}

async fn artifacts_of_the_past_are_checked_with_the_evidence_of_now(database: Database) {
    let service = TestService::start(database).await;
    run(&service, "prod", "a").await;
    let first = "SELECT CAST(received_at AS TEXT) FROM snapshots WHERE snapshot = 1";
    let first: f64 = service.database.rows(first).await[0].parse().unwrap();
    run(&service, "prod", "b").await;
    attest(&service, "cart", "t1", "unit", 'a', 0).await;
    let mut body = candidate(UNIT);
    assert_eq!(check(&service, &body).await["artifacts"][0]["fingerprint"], digest('b'));
    body["at"] = json!(first / 1e6);
    let past = check(&service, &body).await;
    assert_eq!(past["artifacts"], json!([effect('a', "UNKNOWN", "COMPLIANT", &[])]));
    assert_eq!((&past["at"], &past["warning"]), (&body["at"], &json!(null)));
    for (at, why) in [(1.0, "the first report was received at"), (4e9, "in the future")] {
        body["at"] = json!(at);
        let refused = send(&service, READER, &body).await.expect(404);
        assert!(refused.text.contains(why), "{refused:?}");
    }
}

async fn invalid_candidate_is_rejected_and_a_policy_named_check_is_read(database: Database) {
    let service = TestService::start(database).await;
    run(&service, "prod", "a").await;
    let with = |field: &str, value: Value| {
        let mut body = candidate(UNIT);
        body[field] = value;
        body
    };
    for (body, field, why) in [
        (with("policy_file", json!("artifacts: {}")), "policy_file", "missing field `_schema`"),
        (with("policy_file", json!(policy_file("attestation: []"))), "policy_file", "line 2"),
        (with("policy_file", json!("x".repeat(200_000))), "policy_file", "too large"),
        (with("policy_file", json!(1)), "policy_file", "expected a string"),
        (with("environment_name", json!("a/b")), "environment_name", "letter or digit"),
        (with("policy_name", json!("a/b")), "policy_name", "slash"),
        (with("policy_name", json!("unknown")), "policy_name", "policy unknown not found"),
        (with("at", json!(-1)), "at", ""),
        (with("policy", json!("p")), "policy", "unknown field"),
    ] {
        send(&service, READER, &body).await.assert_field_error(field, why);
    }
    send(&service, READER, &with("environment_name", json!("nowhere"))).await.expect(404);
    for (token, expected) in
        [(ADMIN, 200), (READER, 200), (APPROVER, 200), (ATTESTER, 403), (REPORTER, 403), (STRANGER, 403)]
    {
        send(&service, token, &candidate(TESTED)).await.expect(expected);
    }
    service.get(READER, "/policies/acme/check").await.expect(404);
    put(&service, ADMIN, "check", UNIT).await.expect(201);
    assert_eq!(service.read("/policies/acme/check").await["name"], "check");
    service.get(ATTESTER, "/policies/acme/check").await.expect(403);
    // Each artifact is listed once, whatever its names.
    let mut two = artifact('a', "");
    two = json!({"artifacts": [{"podName": "p", "namespace": "shop", "creationTimestamp": 1, "owners": null,
        "digests": {"shop/a:1": two["fingerprint"], "shop/a:2": two["fingerprint"]}}]});
    service.report(ADMIN, "prod", two.to_string()).await.expect(200);
    assert_eq!(check(&service, &candidate(UNIT)).await["artifacts_total"], 1);
}

crate::service::on_both!(
    effect_of_an_added_and_of_a_replaced_policy_is_listed,
    artifacts_of_the_past_are_checked_with_the_evidence_of_now,
);

crate::service::on_sqlite!(invalid_candidate_is_rejected_and_a_policy_named_check_is_read);
