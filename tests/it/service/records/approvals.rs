//! Operations 3, 6, 8 and 9: reading approvals and actions that the bootstrap file declares.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{ADMIN, Database, READER, Response, TestService, digest, form};

const COMMIT: &str = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";

fn approval(number: i64, more: &str) -> String {
    format!(
        "{{number: {number}, artifact: {}, base: {}, name: \"cart:2\", {more}}}",
        digest('a'),
        digest('b')
    )
}

fn declared(generation: i64, approvals: &str) -> String {
    bootstrap(generation, &format!("    flows: [{{name: cart, approvals: [{approvals}]}}]"))
}

fn options(bootstrap: String) -> Options {
    Options { bootstrap, ..Options::default() }
}

/// The approval without the times at which the service recorded it.
fn without_times(mut approval: Value) -> Value {
    for field in ["created_at", "last_modified_at"] {
        assert!(approval[field].as_f64().unwrap() > 1.7e9, "{approval}");
        approval.as_object_mut().unwrap().remove(field);
    }
    approval
}

async fn approval_has_every_field_and_artifacts_of_its_commits(database: Database) {
    let full = approval(
        3,
        &format!(
            "description: to production, environment: prod, commits: [{COMMIT}], state: APPROVED,
             userData: {{ticket: [OPS-7, 1.50]}},
             approvals: [{{by: kim, at: 2026-09-01T12:00:00Z, comment: fine, url: \"https://x\"}}]"
        ),
    );
    let service = TestService::start_with(database, options(declared(1, &full))).await;
    for (digit, commit) in [('a', COMMIT), ('c', COMMIT), ('d', &digest('e')[..40])] {
        let data = json!({
            "attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest(digit),
            "git_commit_info": {"sha1": commit}, "repo_info": {"name": "acme/cart"},
        });
        service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    }
    let mut expected = json!({
        "release_number": 3, "base_artifact": digest('b'), "artifact_name": "cart:2",
        "target_artifact": digest('a'), "description": "to production", "state": "APPROVED",
        "src_commit_list": [{"commit_sha": COMMIT, "artifact_fingerprints": [digest('a'), digest('c')]}],
        "approvals": [{
            "state": "APPROVED", "comment": "fine", "approved_by": "kim", "approval_url": "https://x", "timestamp": 1_788_264_000,
        }],
        "environment": "prod", "user_data": {"ticket": ["OPS-7", 1.5]}, "created_by": null, "withdrawal": null,
    });
    assert_eq!(without_times(service.read("/approvals/acme/cart/3").await), expected);
    // The list has only the hash of a commit.
    expected["src_commit_list"] = json!([COMMIT]);
    let list = service.read(&format!("/artifacts/acme/cart/{}/approvals", digest('a'))).await;
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(without_times(list[0].clone()), expected);
    // The base artifact has no approvals.
    assert_eq!(service.read(&format!("/artifacts/acme/cart/{}/approvals", digest('b'))).await, json!([]));
}

async fn approval_keeps_its_number_through_change_and_withdrawal(database: Database) {
    let service =
        TestService::start_with(database, options(declared(1, &approval(1, "state: PENDING")))).await;
    let first = service.read("/approvals/acme/cart/1").await;
    assert_eq!(
        (&first["state"], &first["user_data"], &first["approvals"]),
        (&json!("PENDING"), &Value::Null, &json!([]))
    );
    let signed = "state: APPROVED, approvals: [{by: kim, at: 2026-09-01T12:00:00Z}]";
    let two = format!("{}, {}", approval(1, signed), approval(2, "state: PENDING"));
    service.reload(&declared(2, &two)).await;
    let second = service.read("/approvals/acme/cart/1").await;
    assert_eq!((&second["state"], &second["created_at"]), (&json!("APPROVED"), &first["created_at"]));
    assert!(second["last_modified_at"].as_f64() > first["last_modified_at"].as_f64());
    service.reload(&declared(3, &approval(2, "state: PENDING"))).await;
    let list = service.read(&format!("/artifacts/acme/cart/{}/approvals", digest('a'))).await;
    let states: Vec<_> =
        list.as_array().unwrap().iter().map(|a| (&a["release_number"], &a["state"])).collect();
    assert_eq!(states, [(&json!(1), &json!("UNAPPROVED")), (&json!(2), &json!("PENDING"))]);
    // The list of the flow begins with the latest; older clients page it, and count from the latest approval.
    let numbers = async |query: &str| {
        let listed = service.read(&format!("/approvals/acme/cart{query}")).await;
        let numbers = listed.as_array().unwrap().iter().map(|one| one["release_number"].as_i64().unwrap());
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(numbers("").await, [2, 1]);
    assert_eq!(numbers("?page=2&per_page=1").await, [1]);
    assert_eq!(numbers("?page=3&per_page=1").await, [0; 0]);
    for (number, expected) in [(-1, 2), (-2, 1)] {
        let found = service.read(&format!("/approvals/acme/cart/{number}")).await;
        assert_eq!(found["release_number"], expected);
    }
    // Earlier states are kept.
    let history = "SELECT state FROM approvals WHERE number = 1 ORDER BY modified_at";
    assert_eq!(service.database.rows(history).await, ["PENDING", "APPROVED"]);
    // A number is never reused or moved to another artifact; such a file is rejected.
    let other = approval(2, "state: PENDING").replace(&digest('a'), &digest('f'));
    for bootstrap in [declared(4, &two), declared(4, &other)] {
        service.reload(&bootstrap).await;
        assert_eq!(service.read("/approvals/acme/cart/2").await["target_artifact"], digest('a'));
        assert_eq!(service.read("/approvals/acme/cart/1").await["state"], "UNAPPROVED");
    }
    assert!(service.metrics().await.contains("supercargo_bootstrap_loads_total{outcome=\"failed\"} 2"));
}

async fn invalid_request_names_the_parameter(database: Database) {
    let service =
        TestService::start_with(database, options(declared(1, &approval(1, "state: PENDING")))).await;
    for (path, field, message) in [
        ("/approvals/acme/cart/x", "approval_number", "expected an integer from 1, or -1 for the latest"),
        ("/approvals/acme/cart/+1", "approval_number", "expected an integer from 1"),
        ("/approvals/acme/cart/99999999999999999999", "approval_number", "expected an integer from 1"),
        ("/approvals/acme/-cart/1", "flow_name", "letter or digit"),
        ("/approvals/acme/cart/1?x=1", "x", "unknown parameter"),
        ("/approvals/acme/cart?per_page=501", "per_page", "1 to 500"),
        ("/actions/acme/-1", "action_number", "expected an integer from 1"),
        ("/actions/acme/1?x=1", "x", "unknown parameter: expected none"),
        ("/organizations/acme/environments_notifications?page=1", "page", "unknown parameter"),
        ("/artifacts/acme/cart/abc/approvals", "fingerprint", "64 lowercase hex"),
        ("/artifacts/acme/a%20b/abc/approvals", "flow_name", "letter or digit"),
    ] {
        service.get(READER, path).await.assert_field_error(field, message);
    }
    for (path, message) in [
        ("/approvals/acme/cart/2", "approval 2 of flow \"cart\" not found"),
        ("/approvals/acme/cart/0", "approval 0 of flow \"cart\" not found"),
        ("/approvals/acme/cart/-2", "approval -2 of flow \"cart\" not found"),
        (
            &format!("/approvals/acme/cart/{}", i64::MIN),
            "approval -9223372036854775808 of flow \"cart\" not found",
        ),
        ("/approvals/acme/web/1", "flow web not found"),
        (&format!("/artifacts/acme/web/{}/approvals", digest('a')), "flow web not found"),
        ("/actions/acme/1", "action 1 not found"),
    ] {
        let response = service.get(READER, path).await.expect(404);
        assert!(response.text.contains(&message.replace('"', "\\\"")), "{response:?}");
        Response::from_request(service.request(Method::PUT, ADMIN, path)).await.expect(405);
    }
    assert_eq!(service.read("/organizations/acme/environments_notifications").await, json!([]));
}

async fn approvals_of_another_organization_are_hidden(database: Database) {
    let service =
        TestService::start_with(database, options(declared(1, &approval(1, "state: PENDING")))).await;
    for path in ["/approvals/stranger/cart/1", "/organizations/stranger/environments_notifications"] {
        service.get(READER, path).await.expect(403);
    }
    service.get(crate::service::STRANGER, "/approvals/stranger/cart").await.expect(404);
    service.get(crate::service::STRANGER, "/approvals/acme/cart").await.expect(403);
    let path = format!("/artifacts/stranger/cart/{}/approvals", digest('a'));
    assert_eq!(service.get(crate::service::STRANGER, &path).await.expect(404).status, 404);
}

crate::service::on_both!(
    approval_has_every_field_and_artifacts_of_its_commits,
    approval_keeps_its_number_through_change_and_withdrawal,
    approvals_of_another_organization_are_hidden,
);

crate::service::on_sqlite!(invalid_request_names_the_parameter);
