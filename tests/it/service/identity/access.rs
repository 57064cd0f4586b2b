//! Tokens, roles and organizations.

use reqwest::Method;
use serde_json::json;

use crate::service::report;
use crate::service::support::test_service::bootstrap;
use crate::service::{
    ADMIN, APPROVER, ATTESTER, Database, EXPIRED, READER, REPORTER, Response, STRANGER, TestService, digest,
    form, pod,
};

/// Statuses of all operations in an organization: reports for `prod` and `test`, attestations in `cart` and `web`,
/// and the seven reads, two of them of missing resources.
async fn operations(service: &TestService, token: &str, organization: &str) -> Vec<u16> {
    let mut responses = Vec::new();
    for environment in ["prod", "test"] {
        let path = format!("/environments/{organization}/{environment}/report/K8S?create=true");
        let request = service.request(Method::PUT, token, &path).header("Content-Type", "application/json");
        responses.push(Response::from_request(request.body(report(&[pod("p", "i", 'a')]))).await);
    }
    for flow in ["cart", "web"] {
        let path = format!("/attestations/{organization}/{flow}/trail/t/junit");
        let data = json!({
            "attestation_name": "unit", "junit_results": [], "repo_info": {"name": "acme/cart"},
        });
        responses.push(
            Response::from_request(service.request(Method::POST, token, &path).multipart(form(&data))).await,
        );
    }
    for path in [
        format!("/trails/{organization}"),
        format!("/attestations/{organization}/cart"),
        format!("/repos/{organization}/live-artifacts/acme/cart"),
        format!("/organizations/{organization}/environments_notifications"),
        format!("/approvals/{organization}/cart/1"),
        format!("/artifacts/{organization}/cart/{}/approvals", digest('a')),
        format!("/actions/{organization}/1"),
    ] {
        responses.push(service.get(token, &path).await);
    }
    // The response reveals nothing else about another organization.
    for response in responses.iter().filter(|response| response.status == 403 && organization != "acme") {
        assert_eq!(response.text, r#"{"message":"this token belongs to another organization"}"#);
    }
    responses.iter().map(|response| response.status.as_u16()).collect()
}

/// The roles that an operation admits.
async fn admitted_roles(request: impl Fn(&'static str) -> reqwest::RequestBuilder) -> Vec<&'static str> {
    let mut roles = Vec::new();
    for (role, token) in [
        ("report", REPORTER),
        ("attest", ATTESTER),
        ("approve", APPROVER),
        ("read", READER),
        ("admin", ADMIN),
    ] {
        let response = Response::from_request(request(token)).await;
        assert!([200, 201, 400, 403, 404, 415].contains(&response.status.as_u16()), "{response:?}");
        if response.status != 403 {
            roles.push(role);
        }
    }
    roles
}

/// Each operation of the OpenAPI document, which is made from the routes, with the roles that it admits.
async fn each_route_below_an_organization_admits_its_roles_only(database: Database) {
    let service = TestService::start(database).await;
    let document = Response::from_request(service.http.get(format!("{}/api/v2/openapi.json", service.base)))
        .await
        .json();
    let parameter = regex::Regex::new(r"\{\w+\}").unwrap();
    let mut routes = Vec::new();
    let paths = document["paths"].as_object().unwrap().iter();
    for (path, operations) in paths.filter(|(path, _)| path.contains("{org}")) {
        let target =
            path.replace("{org}", "acme").replace("{env_name}", "prod").replace("{flow_name}", "cart");
        let target = parameter.replace_all(&target, "1").replace("/api/v2", "");
        for method in operations.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let request = |token| service.request(method.clone(), token, &target);
            for (token, status) in [("guessed-0123456789abcdef01234567", 401), (STRANGER, 403)] {
                Response::from_request(request(token)).await.expect(status);
            }
            let roles = admitted_roles(request).await;
            routes.push(format!("{method} {path}: {}", roles.join(", ")));
        }
    }
    routes.sort();
    insta::assert_snapshot!(routes.join("\n"), @r"
    DELETE /api/v2/environments/{org}/{env_name}/policies: admin
    DELETE /api/v2/tokens/{org}/{token_name}: admin
    GET /api/v2/actions/{org}/{action_number}: approve, read, admin
    GET /api/v2/approvals/{org}/{flow_name}/artifact-commit/{env_name}: approve, read, admin
    GET /api/v2/approvals/{org}/{flow_name}/{approval_number}: approve, read, admin
    GET /api/v2/approvals/{org}/{flow_name}: approve, read, admin
    GET /api/v2/artifacts/{org}/{flow_name}/commit_sha/{commit_sha}: approve, read, admin
    GET /api/v2/artifacts/{org}/{flow_name}/fingerprint/{fingerprint}: approve, read, admin
    GET /api/v2/artifacts/{org}/{flow_name}/{fingerprint}/approvals: approve, read, admin
    GET /api/v2/artifacts/{org}: approve, read, admin
    GET /api/v2/asserts/{org}/fingerprint/{fingerprint}: approve, read, admin
    GET /api/v2/attachments/{org}/{attestation_id}: approve, read, admin
    GET /api/v2/attestations/{org}/{flow_name}/artifact/{fingerprint}/{attestation_name}: approve, read, admin
    GET /api/v2/attestations/{org}/{flow_name}/trail/{trail_name}/{type_or_name}: approve, read, admin
    GET /api/v2/attestations/{org}/{flow_name}: approve, read, admin
    GET /api/v2/attestations/{org}: approve, read, admin
    GET /api/v2/audit/{org}: admin
    GET /api/v2/digests/{org}: approve, read, admin
    GET /api/v2/env-diff/{org}: approve, read, admin
    GET /api/v2/environments/{org}/{env_name}/access-review: admin
    GET /api/v2/environments/{org}/{env_name}/agents: approve, read, admin
    GET /api/v2/environments/{org}/{env_name}/events: approve, read, admin
    GET /api/v2/environments/{org}/{env_name}: report, approve, read, admin
    GET /api/v2/environments/{org}: approve, read, admin
    GET /api/v2/flows/{org}/template_file: approve, read, admin
    GET /api/v2/flows/{org}/{flow_name}: approve, read, admin
    GET /api/v2/flows/{org}: approve, read, admin
    GET /api/v2/log/{org}: admin
    GET /api/v2/organizations/{org}/environments_notifications: approve, read, admin
    GET /api/v2/packages/{org}: approve, read, admin
    GET /api/v2/policies/{org}/check: approve, read, admin
    GET /api/v2/policies/{org}/{policy_name}: approve, read, admin
    GET /api/v2/policies/{org}: approve, read, admin
    GET /api/v2/repos/{org}/live-artifacts/{repo_name}: approve, read, admin
    GET /api/v2/search/{org}/sha/{sha}: approve, read, admin
    GET /api/v2/search/{org}: approve, read, admin
    GET /api/v2/snapshots/{org}/{env_name}/{snapshot}/statement: approve, read, admin
    GET /api/v2/snapshots/{org}/{env_name}/{snapshot}: report, approve, read, admin
    GET /api/v2/snapshots/{org}/{env_name}: approve, read, admin
    GET /api/v2/tokens/{org}: admin
    GET /api/v2/trails/{org}/{flow_name}/{trail_name}: approve, read, admin
    GET /api/v2/trails/{org}: approve, read, admin
    PATCH /api/v2/tags/{org}/env/{env_name}: admin
    PATCH /api/v2/tags/{org}/flow/{flow_name}: admin
    POST /api/v2/actions/{org}/{action_number}/test: admin
    POST /api/v2/approvals/{org}/{flow_name}: approve, admin
    POST /api/v2/artifacts/{org}/{flow_name}/image-index: attest, admin
    POST /api/v2/artifacts/{org}/{flow_name}: attest, admin
    POST /api/v2/attestations/{org}/{flow_name}/trail/{trail_name}/{type_or_name}: attest, admin
    POST /api/v2/environments/{org}/{env_name}/policies: admin
    POST /api/v2/policies/{org}/check: approve, read, admin
    POST /api/v2/tokens/{org}: admin
    PUT /api/v2/allowlists/{org}/{env_name}: admin
    PUT /api/v2/approvals/{org}/{flow_name}/{approval_number}/withdraw: approve, admin
    PUT /api/v2/environments/{org}/{env_name}/archive: admin
    PUT /api/v2/environments/{org}/{env_name}/report/K8S: report, admin
    PUT /api/v2/environments/{org}: report, admin
    PUT /api/v2/flows/{org}/template_file: attest, admin
    PUT /api/v2/flows/{org}: attest, admin
    PUT /api/v2/policies/{org}: admin
    PUT /api/v2/repos/{org}/close/{repo_name}: admin
    PUT /api/v2/repos/{org}/reopen/{repo_name}: admin
    PUT /api/v2/trails/{org}/{flow_name}: attest, admin
    ");
}

async fn each_role_is_limited_to_its_operations(database: Database) {
    let service = TestService::start(database).await;
    for (token, expected) in [
        (ADMIN, [201, 201, 201, 201, 200, 200, 200, 200, 404, 200, 404]),
        (REPORTER, [200, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403]),
        (ATTESTER, [403, 403, 201, 403, 403, 403, 403, 403, 403, 403, 403]),
        (READER, [403, 403, 403, 403, 200, 200, 200, 200, 404, 200, 404]),
        (APPROVER, [403, 403, 403, 403, 200, 200, 200, 200, 404, 200, 404]),
        (STRANGER, [403; 11]),
        (EXPIRED, [401; 11]),
        ("guessed-0123456789abcdef01234567", [401; 11]),
    ] {
        assert_eq!(operations(&service, token, "acme").await, expected, "{token}");
    }
}

async fn denied_request_names_the_required_role_only(database: Database) {
    let service = TestService::start(database).await;
    let put = |token, environment: &str| {
        let path = format!("/environments/acme/{environment}/report/K8S");
        service.request(Method::PUT, token, &path)
    };
    let post = |token| service.request(Method::POST, token, "/attestations/acme/web/trail/t/junit");
    for (request, message) in [
        (put(READER, "prod"), "this operation requires a token with role report or admin, got role read"),
        (put(REPORTER, "nowhere"), "this token with role report does not list this environment"),
        (put(STRANGER, "prod"), "this token belongs to another organization"),
        (post(REPORTER), "this operation requires a token with role attest or admin, got role report"),
        (post(ATTESTER), "this token with role attest does not list this flow"),
        (
            service.request(Method::GET, ATTESTER, "/trails/acme"),
            "this operation requires a token with role read or admin, got role attest",
        ),
    ] {
        let response = Response::from_request(request).await.expect(403);
        assert_eq!(response.text, json!({ "message": message }).to_string());
    }
}

async fn unknown_organization_is_denied_like_another_organization(database: Database) {
    let service = TestService::start(database).await;
    for token in [ADMIN, READER, REPORTER, ATTESTER] {
        for organization in ["stranger", "nowhere", "a%00b", "%F0%9F%9A%A2"] {
            assert_eq!(operations(&service, token, organization).await, [403; 11], "{token} {organization}");
        }
    }
}

async fn request_without_one_valid_bearer_token_gets_identical_401(database: Database) {
    let service = TestService::start(database).await;
    let url = |organization: &str| format!("{}/api/v2/trails/{organization}", service.base);
    let valid = format!("Bearer {READER}");
    for headers in [
        vec![],
        vec![""],
        vec!["Bearer"],
        vec!["Bearer "],
        vec![READER],
        vec!["Basic cmVhZGVyOg=="],
        vec!["Bearer wrong"],
        vec![&valid, &valid],
    ] {
        let mut texts = Vec::new();
        for organization in ["acme", "nowhere"] {
            let mut request = service.http.get(url(organization));
            for header in &headers {
                request = request.header("Authorization", *header);
            }
            let response = Response::from_request(request).await.expect(401);
            assert_eq!(response.headers["www-authenticate"], "Bearer");
            texts.push(response.text);
        }
        assert_eq!(texts[0], texts[1], "{headers:?}");
    }
    // The scheme is case-insensitive.
    let lower = service.http.get(url("acme")).header("Authorization", format!("bearer {READER}"));
    Response::from_request(lower).await.expect(200);
}

async fn wrong_tokens_get_identical_401_for_any_organization(database: Database) {
    let service = TestService::start(database).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut guesses = tokio::task::JoinSet::new();
    for worker in 0..10 {
        let (http, base) = (service.http.clone(), service.base.clone());
        guesses.spawn(async move {
            let mut texts = std::collections::BTreeSet::new();
            for n in 0..100 {
                let organization = if n % 2 == 0 { "acme" } else { "nowhere" };
                let request = http.get(format!("{base}/api/v2/trails/{organization}"));
                let response =
                    Response::from_request(request.bearer_auth(format!("guess-{worker}-{n}"))).await;
                texts.insert((response.status.as_u16(), response.text));
            }
            texts
        });
    }
    while let Some(texts) = guesses.join_next().await {
        seen.extend(texts.unwrap());
    }
    assert_eq!(seen.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [401]);
    service.get(READER, "/trails/acme").await.expect(200);
}

async fn token_removed_from_file_is_rejected_and_two_may_overlap(database: Database) {
    let service = TestService::start(database).await;
    let second = "second-0123456789abcdef012345678";
    let hash = model::Fingerprint::from_content(second.as_bytes());
    let overlapping = bootstrap(2, &format!("      - {{name: reader, role: read, sha256: {hash}}}"));
    service.reload(&overlapping).await;
    for token in [READER, second] {
        service.get(token, "/trails/acme").await.expect(200);
    }
    let rotated = overlapping
        .replace(&format!("      - {{name: reader, role: read, file: {READER}}}\n"), "")
        .replace("generation: 2", "generation: 3");
    service.reload(&rotated).await;
    service.get(second, "/trails/acme").await.expect(200);
    service.get(READER, "/trails/acme").await.expect(401);
    // The token is closed with a time, not deleted.
    let closed = "SELECT name FROM tokens WHERE closed_at IS NOT NULL";
    assert_eq!(service.database.rows(closed).await, ["reader"]);
}

crate::service::on_both!(
    each_role_is_limited_to_its_operations,
    wrong_tokens_get_identical_401_for_any_organization,
    token_removed_from_file_is_rejected_and_two_may_overlap,
);

crate::service::on_sqlite!(
    each_route_below_an_organization_admits_its_roles_only,
    denied_request_names_the_required_role_only,
    unknown_organization_is_denied_like_another_organization,
    request_without_one_valid_bearer_token_gets_identical_401,
);
