//! Approvals by tokens: who may make them, what follows from them, and their withdrawal.

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::service::report;
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{
    ADMIN, APPROVER, ATTESTER, Database, READER, REPORTER, Response, STRANGER, TestService, digest, form,
    in_words, pod,
};

/// Two environments that require approvals and one that does not, and two flows, with these approvals of `cart`.
fn declared(generation: i64, approvals: &str) -> String {
    let more = format!(
        "    environments: [{{name: prod, policy: {{approval: true}}}}, {{name: stage, policy: {{approval: true}}}}, {{name: test}}]
    flows: [{{name: cart, approvals: [{approvals}]}}, {{name: web}}]"
    );
    bootstrap(generation, &more)
}

/// An approval of the bootstrap file, of the artifact `a` for all environments.
fn in_file(number: i64) -> String {
    format!(
        "{{number: {number}, artifact: {}, base: {}, name: cart, state: APPROVED,
           approvals: [{{by: jo, at: 2026-09-01T12:00:00Z}}]}}",
        digest('a'),
        digest('b')
    )
}

async fn start(database: Database) -> TestService {
    let options = Options { bootstrap: declared(1, ""), ..Options::default() };
    TestService::start_with(database, options).await
}

fn approval(artifact: char, environment: &str) -> Value {
    json!({"artifact_fingerprint": digest(artifact), "environment": environment,
           "approvals": [{"state": "APPROVED", "comment": "fine"}]})
}

async fn send(service: &TestService, token: &str, flow: &str, body: impl Into<String>) -> Response {
    let request = service.request(Method::POST, token, &format!("/approvals/acme/{flow}"));
    Response::from_request(request.header(CONTENT_TYPE, "application/json").body(body.into())).await
}

async fn approve(service: &TestService, token: &str, approval: &Value) -> Response {
    send(service, token, "cart", approval.to_string()).await
}

async fn withdraw(service: &TestService, token: &str, number: i64, body: &'static str) -> Response {
    let request = service.request(Method::PUT, token, &format!("/approvals/acme/cart/{number}/withdraw"));
    Response::from_request(request.header(CONTENT_TYPE, "application/json").body(body)).await
}

/// The open verdicts of each environment.
async fn verdicts(service: &TestService) -> Vec<String> {
    let verdicts = "SELECT e.name || ' ' || v.compliance || ' ' || v.reasons FROM verdicts v
                      JOIN environments e ON e.id = v.environment WHERE v.until_at IS NULL ORDER BY e.name";
    in_words(service.database.rows(verdicts).await)
}

/// The changes in the audit log, newest first, without those of the bootstrap file.
async fn audited(service: &TestService) -> Vec<String> {
    let log = service.get(ADMIN, "/audit/acme?per_page=500").await.expect(200).json();
    let entries = log["data"].as_array().unwrap().iter();
    let entries = entries.map(|entry| (entry["actor"].as_str().unwrap(), entry["change"].as_str().unwrap()));
    let by_token =
        entries.filter(|(actor, change)| actor.starts_with("token") && !change.starts_with("reported"));
    by_token.map(|(actor, change)| format!("{actor}: {change}")).collect()
}

async fn approval_and_its_withdrawal_change_the_verdict_at_once(database: Database) {
    let service = start(database).await;
    for environment in ["prod", "stage"] {
        service.report(ADMIN, environment, report(&[pod("p", "cart:2", 'a')])).await.expect(201);
    }
    let refused = |environment: &str| {
        format!("{environment} NON-COMPLIANT [\"environment:{environment} v1: not approved\"]")
    };
    assert_eq!(verdicts(&service).await, [refused("prod"), refused("stage")]);
    let made = approve(&service, APPROVER, &approval('a', "prod")).await.expect(201).json();
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []", &refused("stage")]);
    assert_eq!(made, service.read("/approvals/acme/cart/1").await);
    let at = made["created_at"].clone();
    assert_eq!(
        made,
        json!({
            "release_number": 1, "base_artifact": digest('a'), "artifact_name": "cart:2",
            "target_artifact": digest('a'), "description": "", "src_commit_list": [], "state": "APPROVED",
            "approvals": [{"state": "APPROVED", "comment": "fine", "approved_by": "kim", "approval_url": "", "timestamp": at}],
            "environment": "prod", "user_data": null, "created_at": at, "last_modified_at": at,
            "created_by": "kim", "withdrawal": null,
        })
    );
    let withdrawn = withdraw(&service, ADMIN, 1, r#"{"comment": "broken"}"#).await.expect(200).json();
    assert_eq!(verdicts(&service).await, [refused("prod"), refused("stage")]);
    assert_eq!(withdrawn["state"], "UNAPPROVED");
    let at = withdrawn["last_modified_at"].clone();
    assert_eq!(
        withdrawn["withdrawal"],
        json!({"withdrawn_by": "admin", "comment": "broken", "timestamp": at})
    );
    // The approval remains as evidence, and a second withdrawal changes nothing.
    assert_eq!(withdrawn["approvals"], made["approvals"]);
    assert_eq!(withdraw(&service, APPROVER, 1, "null").await.expect(200).json(), withdrawn);
    let list = service.read(&format!("/artifacts/acme/cart/{}/approvals", digest('a'))).await;
    assert_eq!(list, json!([withdrawn]));
    let events = "SELECT kind FROM events WHERE content LIKE '%\"cause\":{\"type\":\"APPROVAL\",\"by\":%' ORDER BY occurred_at";
    assert_eq!(service.database.rows(events).await, ["ON_COMPLIANT_ENV", "ON_NON_COMPLIANT_ENV"]);
    assert_eq!(
        audited(&service).await,
        [
            format!("token admin: withdrew approval 1 of the flow cart, of {}", digest('a')),
            format!("token kim: approved {} for prod: approval 1 of the flow cart", digest('a')),
        ]
    );
}

async fn approval_of_an_artifact_that_has_not_run_counts_when_it_runs(database: Database) {
    let service = start(database).await;
    // The artifact is neither reported nor attested yet.
    approve(&service, APPROVER, &approval('f', "prod")).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'f')])).await.expect(201);
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
}

async fn requests_of_older_clients_are_accepted(database: Database) {
    let service = start(database).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'a')])).await.expect(201);
    let commit = service.read("/approvals/acme/cart/artifact-commit/prod").await;
    assert_eq!(commit, json!({"commit_sha": null}));
    // A request for an approval, and the approval itself.
    let sha = "4f1c2e7d90b3a85c6e2f7d1b08a9c35e4d6f7a21";
    let mut sent = json!({
        "artifact_fingerprint": digest('a'), "environment": "prod", "description": "go", "src_commit_list": [sha],
        "oldest_commit": sha, "approvals": [], "user_data": {},
    });
    let request = |body: &Value| {
        let request = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
        Response::from_request(
            request.header(CONTENT_TYPE, "application/json; charset=utf-8").body(body.to_string()),
        )
    };
    let requested = request(&sent).await.expect(201).json();
    assert_eq!((&requested["state"], &requested["approvals"]), (&json!("PENDING"), &json!([])));
    assert_eq!(verdicts(&service).await, ["prod NON-COMPLIANT [\"environment:prod v1: not approved\"]"]);
    sent["approvals"] = json!([
        {"state": "APPROVED", "comment": "ok", "approved_by": "somebody else", "approval_url": "undefined"},
    ]);
    let approved = request(&sent).await.expect(201).json();
    // The approver is the token, whatever the body says.
    let decision = &approved["approvals"][0];
    assert_eq!((&decision["approved_by"], &decision["approval_url"]), (&json!("admin"), &json!("")));
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    assert_eq!(approved["src_commit_list"][0]["commit_sha"], sha);
    let attested = json!({"attestation_name": "unit", "artifact_fingerprint": digest('a'), "junit_results": [],
                          "git_commit_info": {"sha1": sha}, "repo_info": {"name": "acme/cart"}});
    service.attest(ADMIN, "cart", "t", form(&attested)).await.expect(201);
    let commit = service.read("/approvals/acme/cart/artifact-commit/prod").await;
    assert_eq!(commit, json!({"commit_sha": sha}));
    // The next approval names the artifact that it replaces.
    let next = approve(&service, ADMIN, &approval('c', "prod")).await.expect(201).json();
    assert_eq!(next["base_artifact"], digest('a'));
    // Without an environment, it applies to all.
    let all = json!({"artifact_fingerprint": digest('d'), "approvals": [{"state": "APPROVED"}]});
    assert_eq!(approve(&service, ADMIN, &all).await.expect(201).json()["environment"], Value::Null);
}

async fn concurrent_approvals_get_distinct_numbers(database: Database) {
    let service = start(database).await;
    service.reload(&declared(2, &in_file(3))).await;
    let digits: Vec<char> = "0123456789".chars().collect();
    let mut requests = tokio::task::JoinSet::new();
    for digit in digits {
        let request = service.request(Method::POST, ADMIN, "/approvals/acme/cart");
        let request = request.header(CONTENT_TYPE, "application/json");
        requests.spawn(Response::from_request(request.body(approval(digit, "prod").to_string())));
    }
    let made = requests.join_all().await.into_iter();
    let mut numbers: Vec<i64> =
        made.map(|response| response.expect(201).json()["release_number"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    // The file and tokens share the numbers of a flow; another flow has its own.
    assert_eq!(numbers, (4..14).collect::<Vec<_>>());
    let other = send(&service, ADMIN, "web", approval('a', "prod").to_string()).await.expect(201).json();
    assert_eq!(other["release_number"], 1);
}

async fn repeated_approval_by_a_token_is_the_same_approval(database: Database) {
    let service = start(database).await;
    let first = approve(&service, APPROVER, &approval('a', "prod")).await.expect(201).json();
    assert_eq!(approve(&service, APPROVER, &approval('a', "prod")).await.expect(200).json(), first);
    // Another token, artifact or flow is another approval; so is one after a withdrawal.
    let number = |response: Response| response.expect(201).json()["release_number"].as_i64().unwrap();
    assert_eq!(number(approve(&service, ADMIN, &approval('a', "prod")).await), 2);
    assert_eq!(number(approve(&service, ADMIN, &approval('a', "stage")).await), 3);
    assert_eq!(number(approve(&service, APPROVER, &approval('b', "prod")).await), 4);
    withdraw(&service, APPROVER, 1, "").await.expect(200);
    assert_eq!(number(approve(&service, APPROVER, &approval('a', "prod")).await), 5);
}

async fn bootstrap_file_and_tokens_do_not_change_each_others_approvals(database: Database) {
    let service = start(database).await;
    service.reload(&declared(2, &in_file(1))).await;
    approve(&service, APPROVER, &approval('c', "prod")).await.expect(201);
    let refused = withdraw(&service, ADMIN, 1, "").await.expect(400);
    assert!(
        refused.text.contains("approval 1 of flow \\\"cart\\\" comes from the bootstrap file"),
        "{refused:?}"
    );
    // A reload keeps the token's approval, also if the file drops its own.
    service.report(ADMIN, "prod", report(&[pod("p", "cart:2", 'c')])).await.expect(201);
    service.reload(&declared(3, "")).await;
    let states = async || {
        let mut all = Vec::new();
        for number in [1, 2] {
            all.push(service.read(&format!("/approvals/acme/cart/{number}")).await["state"].clone());
        }
        all
    };
    assert_eq!(states().await, ["UNAPPROVED", "APPROVED"]);
    assert_eq!(verdicts(&service).await, ["prod COMPLIANT []"]);
    // The number of a token's approval is not available to the file, even after its withdrawal.
    for generation in [5, 6] {
        service.reload(&declared(generation, &in_file(2))).await;
        assert_eq!(service.read("/approvals/acme/cart/2").await["target_artifact"], digest('c'));
        withdraw(&service, APPROVER, 2, "").await.expect(200);
    }
    assert!(service.metrics().await.contains("supercargo_bootstrap_loads_total{outcome=\"failed\"} 2"));
    service.reload(&declared(7, &in_file(9))).await;
    assert_eq!(states().await, ["UNAPPROVED", "UNAPPROVED"]);
    let next = approve(&service, APPROVER, &approval('c', "prod")).await.expect(201).json();
    assert_eq!(next["release_number"], 10);
}

async fn each_role_and_scope_approves_its_own_only(database: Database) {
    let service = start(database).await;
    let for_all = json!({"artifact_fingerprint": digest('a'), "approvals": [{"state": "APPROVED"}]});
    let role = "this operation requires a token with role approve or admin, got role";
    for (token, flow, body, message) in [
        (READER, "cart", approval('a', "prod"), format!("{role} read")),
        (ATTESTER, "cart", approval('a', "prod"), format!("{role} attest")),
        (REPORTER, "cart", approval('a', "prod"), format!("{role} report")),
        (STRANGER, "cart", approval('a', "prod"), "this token belongs to another organization".to_owned()),
        (
            APPROVER,
            "web",
            approval('a', "prod"),
            "this token with role approve does not list this flow".to_owned(),
        ),
        (
            APPROVER,
            "-",
            approval('a', "prod"),
            "this token with role approve does not list this flow".to_owned(),
        ),
        (
            APPROVER,
            "cart",
            approval('a', "stage"),
            "this token with role approve does not list this environment".to_owned(),
        ),
        // As for an environment that exists.
        (
            APPROVER,
            "cart",
            approval('a', "none"),
            "this token with role approve does not list this environment".to_owned(),
        ),
        (APPROVER, "cart", for_all, "this token with role approve does not list all environments".to_owned()),
    ] {
        let response = send(&service, token, flow, body.to_string()).await.expect(403);
        assert_eq!(response.text, json!({ "message": message }).to_string(), "{token} {flow} {body}");
    }
    assert_eq!(service.database.rows("SELECT state FROM approvals").await, Vec::<String>::new());
    approve(&service, ADMIN, &approval('a', "stage")).await.expect(201);
    approve(&service, ADMIN, &approval('a', "prod")).await.expect(201);
    for (token, number) in [(READER, 2), (ATTESTER, 2), (REPORTER, 2), (STRANGER, 2), (APPROVER, 1)] {
        withdraw(&service, token, number, "").await.expect(403);
    }
    withdraw(&service, APPROVER, 2, "").await.expect(200);
    // The role reads, and nothing else.
    service.get(APPROVER, "/trails/acme").await.expect(200);
    service.get(APPROVER, "/approvals/acme/web/1").await.expect(404);
    service.get(APPROVER, "/trails/stranger").await.expect(403);
    service.get(APPROVER, "/audit/acme").await.expect(403);
    service.report(APPROVER, "prod", report(&[])).await.expect(403);
    service.attest(APPROVER, "cart", "t", form(&json!({}))).await.expect(403);
}

async fn invalid_approval_is_rejected_and_nothing_is_recorded(database: Database) {
    let service = start(database).await;
    let with = |field: &str, value: Value| {
        let mut body = approval('a', "prod");
        body[field] = value;
        body.to_string()
    };
    let decision = |field: &str, value: Value| {
        let mut body = approval('a', "prod");
        body["approvals"][0][field] = value;
        body.to_string()
    };
    let long = "x".repeat(64 * 1024 + 1);
    for (body, status, message) in [
        // With a misspelled environment, the approval would apply to all.
        (with("enviroment", json!("prod")), 400, "unknown field `enviroment`"),
        (with("environment", json!("a/b")), 400, "environment"),
        (with("environment", json!("nowhere")), 404, "environment nowhere not found"),
        (with("artifact_fingerprint", json!("A".repeat(64))), 400, "64 lowercase hex digits"),
        (with("artifact_fingerprint", json!("a".repeat(63))), 400, "64 lowercase hex digits"),
        (with("artifact_fingerprint", Value::Null), 400, "artifact_fingerprint"),
        (json!({"environment": "prod", "approvals": []}).to_string(), 400, "artifact_fingerprint"),
        (with("src_commit_list", json!(["main"])), 400, "expected a commit hash of 40 lowercase hex digits"),
        (with("user_data", json!(long)), 400, "expected at most 65536 bytes"),
        (with("description", json!(long)), 400, "expected at most 65536 bytes"),
        (with("description", json!("a\0b")), 400, "without a NUL character"),
        (with("approvals", json!([{}])), 400, "state"),
        (
            with("approvals", json!([{"state": "APPROVED"}, {"state": "APPROVED"}])),
            400,
            "expected at most one",
        ),
        (decision("state", json!("UNAPPROVED")), 400, "expected `APPROVED`"),
        (decision("state", json!("approved")), 400, "approved"),
        (decision("comment", json!(long)), 400, "expected at most 65536 bytes"),
        (decision("comment", json!("a\0b")), 400, "without a NUL character"),
        ("[]".to_owned(), 400, "expected an object"),
        ("{".to_owned(), 400, "failed to parse the approval"),
        (String::new(), 400, "failed to parse the approval"),
        ("x".repeat(1024 * 1024 + 1), 413, "at most 1048576 bytes"),
    ] {
        let response = send(&service, ADMIN, "cart", body).await.expect(status);
        assert!(response.text.contains(message), "{message}: {response:?}");
    }
    for (flow, status, message) in [("none", 404, "flow none not found"), ("-x", 400, "letter or digit")] {
        let response = send(&service, ADMIN, flow, approval('a', "prod").to_string()).await.expect(status);
        assert!(response.text.contains(message), "{response:?}");
    }
    let untyped = service.request(Method::POST, ADMIN, "/approvals/acme/cart").body("{}");
    Response::from_request(untyped).await.expect(415);
    approve(&service, ADMIN, &approval('b', "prod")).await.expect(201);
    for (path, body, status, message) in [
        ("cart/0", "", 400, "expected an integer from 1"),
        ("cart/2", "", 404, "approval 2 of flow \\\"cart\\\" not found"),
        ("none/1", "", 404, "flow none not found"),
        ("cart/1", r#"{"reason": "x"}"#, 400, "unknown field `reason`"),
        ("cart/1", "[]", 400, "expected an object"),
        ("cart/1", r#"{"comment": "a\u0000b"}"#, 400, "without a NUL character"),
    ] {
        let request = service.request(Method::PUT, ADMIN, &format!("/approvals/acme/{path}/withdraw"));
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let response = Response::from_request(request).await.expect(status);
        assert!(response.text.contains(message), "{message}: {response:?}");
    }
    assert_eq!(
        service.database.rows("SELECT state FROM approvals WHERE closed_at IS NULL").await,
        ["APPROVED"]
    );
    assert_eq!(audited(&service).await.len(), 1);
}

crate::service::on_both!(
    approval_and_its_withdrawal_change_the_verdict_at_once,
    approval_of_an_artifact_that_has_not_run_counts_when_it_runs,
    requests_of_older_clients_are_accepted,
    concurrent_approvals_get_distinct_numbers,
    repeated_approval_by_a_token_is_the_same_approval,
    bootstrap_file_and_tokens_do_not_change_each_others_approvals,
    each_role_and_scope_approves_its_own_only,
);

crate::service::on_sqlite!(invalid_approval_is_rejected_and_nothing_is_recorded);
