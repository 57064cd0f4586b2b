//! Origins of artifacts: who may name them, what counts, and how an administrator corrects them.

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, assert_contains};
use super::test_service::Options;
use super::{ADMIN, ATTESTER, Database, READER, Response, TestService, bootstrap, digest, form, pod, report};

const CART: &str = "https://github.com/acme/cart";
const LIVE: &str = "/repos/acme/live-artifacts/acme/cart";

fn repository(url: &str) -> Value {
    json!({"name": "acme/cart", "url": url})
}

/// An attestation of the artifact `digit` that names a repository and the commit of this digit.
fn attestation(artifact: char, commit: char, repository: &Value) -> Value {
    json!({"attestation_name": "unit", "artifact_fingerprint": digest(artifact),
           "junit_results": [{"failures": 0, "errors": 0, "total": 1}],
           "git_commit_info": {"sha1": commit.to_string().repeat(40)}, "repo_info": repository})
}

async fn attest(service: &TestService, flow: &str, artifact: char, commit: char, repository: &Value) {
    let data = attestation(artifact, commit, repository);
    service.attest(ADMIN, flow, "t", form(&data)).await.expect(201);
}

async fn change(service: &TestService, token: &str, change: &str, provider: &str) -> Response {
    let path = format!("/repos/acme/{change}/acme/cart?provider={provider}");
    Response::from_request(service.request(Method::PUT, token, &path)).await
}

async fn start(database: Database, flows: &str) -> TestService {
    let bootstrap = bootstrap(1, &format!("    flows: [{flows}]"));
    TestService::start_with(database, Options { bootstrap, ..Options::default() }).await
}

/// The commit, the page of the commit and the number of conflicts of the only live artifact of `acme/cart`.
async fn origin(service: &TestService) -> (Value, Value, Value) {
    let live = service.read(LIVE).await;
    let artifacts = live["_embedded"]["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 1, "{live}");
    let [commit, url, conflicts] =
        ["commit_sha", "commit_url", "provenance_conflicts"].map(|field| artifacts[0][field].clone());
    (commit, url, conflicts)
}

fn commit(digit: char) -> String {
    digit.to_string().repeat(40)
}

async fn another_flow_cannot_replace_the_origin_of_an_artifact(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "secure", 'a', '1', &repository(CART)).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let recorded = (json!(commit('1')), json!(format!("{CART}/commit/{}", commit('1'))), Value::Null);
    assert_eq!(origin(&service).await, recorded);
    // Another commit and URL of the same repository, then another repository.
    attest(&service, "cart", 'a', '2', &repository("https://github.evil.example/phish")).await;
    attest(&service, "cart", 'a', '3', &json!({"name": "evil/phish", "url": "https://evil.example/x"})).await;
    // The same flow and repository again: the first commit stays.
    attest(&service, "secure", 'a', '4', &repository(CART)).await;
    assert_eq!(origin(&service).await, (recorded.0, recorded.1, json!(2)));
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{}", digest('a'))).await;
    let named = [
        "Conflicting origins",
        "evil/phish",
        "https://github.evil.example/phish",
        &commit('2'),
        &commit('3'),
    ];
    assert_contains(&page, &named);
    assert_contains(&page, &["named by flow <bdi>secure</bdi>, token <bdi>admin</bdi>", &commit('1'), CART]);
    assert!(!page.contains("evil.example/phish\""), "{page}");
    assert_eq!(service.database.rows("SELECT url FROM repositories WHERE name = 'acme/cart'").await, [CART]);
    // The other repository is the origin of no artifact.
    let other = service.read("/repos/acme/live-artifacts/evil/phish").await;
    assert_eq!(other["live_artifacts"], json!([]));
}

async fn commit_of_a_later_attestation_completes_the_origin(database: Database) {
    let service = TestService::start(database).await;
    let mut data = attestation('a', '1', &repository(CART));
    data["git_commit_info"] = Value::Null;
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(origin(&service).await, (Value::Null, Value::Null, Value::Null));
    attest(&service, "cart", 'a', '1', &repository(CART)).await;
    assert_eq!(origin(&service).await.0, json!(commit('1')));
}

async fn flow_that_owns_the_repository_determines_the_origin(database: Database) {
    let service = start(database, "{name: secure, repositories: [acme/cart]}").await;
    attest(&service, "other", 'a', '2', &json!({"name": "other/repository"})).await;
    attest(&service, "secure", 'a', '1', &repository(CART)).await;
    attest(&service, "other", 'a', '3', &json!({"name": "other/again"})).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let (sha, _, conflicts) = origin(&service).await;
    assert_eq!((sha, conflicts), (json!(commit('1')), json!(2)));
}

async fn attestation_must_not_name_what_its_flow_does_not_own(database: Database) {
    let flows =
        "{name: secure, repositories: [acme/secure, 'acme/lib-*'], images: ['registry.example/secure*']}";
    let service = start(database, flows).await;
    let pods = [pod("p", "registry.example/secure-api:1", 'a'), pod("q", "registry.example/cart:1", 'b')];
    service.report(ADMIN, "prod", report(&pods)).await.expect(201);
    let named = |name: &str| json!({"name": name});
    for (flow, artifact, name) in
        [("secure", 'a', "acme/secure"), ("secure", 'c', "acme/lib-x"), ("cart", 'b', "acme/cart")]
    {
        attest(&service, flow, artifact, '1', &named(name)).await;
    }
    let before = service.database.rows("SELECT name FROM attestations").await.len();
    for (token, flow, artifact, name, why) in [
        (ATTESTER, "cart", 'b', "acme/secure", "the repository \"acme/secure\" belongs to another flow"),
        (ADMIN, "secure", 'a', "acme/cart", "the flow does not declare the repository \"acme/cart\""),
        (
            ADMIN,
            "secure",
            'b',
            "acme/secure",
            "the flow does not declare the image \"registry.example/cart:1\"",
        ),
    ] {
        for _ in 0..2 {
            let data = attestation(artifact, '2', &named(name));
            let refused = service.attest(token, flow, "t", form(&data)).await.expect(403).json();
            assert!(refused["message"].as_str().unwrap().starts_with(why), "{refused}");
        }
    }
    assert_eq!(service.database.rows("SELECT name FROM attestations").await.len(), before);
    let audited = service.database.rows("SELECT change FROM audit WHERE actor = 'token attester'").await;
    let refusal = "attestation in cart refused: the repository \"acme/secure\" belongs to another flow";
    assert_eq!(audited, [refusal], "once, and not once per request");
    // An attestation without a repository names no origin.
    let mut data = attestation('a', '2', &Value::Null);
    data["git_commit_info"] = Value::Null;
    service.attest(ADMIN, "secure", "t", form(&data)).await.expect(201);
    // The declaration can be removed.
    service.reload(&bootstrap(2, "")).await;
    attest(&service, "cart", 'b', '2', &named("acme/secure")).await;
    let audited = service.database.rows("SELECT change FROM audit WHERE change LIKE '%owns nothing'").await;
    assert_eq!(audited, ["the flow secure owns nothing"]);
}

async fn repository_of_another_provider_does_not_hide_the_recorded_one(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "secure", 'a', '1', &repository(CART)).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    attest(&service, "cart", 'a', '2', &json!({"name": "acme/cart", "provider": "gitlab"})).await;
    assert_eq!(origin(&service).await.0, json!(commit('1')));
    // An artifact of its own makes the name ambiguous, until an administrator closes the repository.
    attest(&service, "cart", 'b', '2', &json!({"name": "acme/cart", "provider": "gitlab"})).await;
    service.get(READER, LIVE).await.assert_field_error("provider", "expected one of github, gitlab");
    change(&service, READER, "close", "gitlab").await.expect(403);
    change(&service, ADMIN, "close", "bitbucket").await.expect(404);
    change(&service, ADMIN, "close", "git").await.assert_field_error("provider", "unknown provider");
    change(&service, ADMIN, "close", "gitlab").await.expect(200);
    assert_eq!(origin(&service).await.0, json!(commit('1')));
    service.get(READER, &format!("{LIVE}?provider=gitlab")).await.expect(404);
    let data = attestation('b', '3', &json!({"name": "acme/cart", "provider": "gitlab"}));
    let rejected = service.attest(ADMIN, "cart", "t", form(&data)).await.expect(409).json();
    assert!(rejected["errors"]["repo_info.name"].as_str().unwrap().contains("closed"), "{rejected}");
    change(&service, ADMIN, "reopen", "gitlab").await.expect(200);
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service.get(READER, LIVE).await.assert_field_error("provider", "expected one of github, gitlab");
    let audited = service
        .database
        .rows("SELECT change FROM audit WHERE change LIKE '%the repository%' ORDER BY id")
        .await;
    assert_eq!(
        audited,
        ["closed the repository acme/cart at gitlab", "reopened the repository acme/cart at gitlab"]
    );
}

async fn closed_repository_makes_the_next_claim_count(database: Database) {
    let service = TestService::start(database).await;
    attest(&service, "evil", 'a', '6', &json!({"name": "acme/wrong"})).await;
    attest(&service, "cart", 'a', '1', &repository(CART)).await;
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    assert_eq!(service.read(LIVE).await["live_artifacts"], json!([]));
    let close =
        |change: &str| service.request(Method::PUT, ADMIN, &format!("/repos/acme/{change}/acme/wrong"));
    Response::from_request(close("close")).await.expect(200);
    assert_eq!(origin(&service).await.0, json!(commit('1')));
    // The origin stays as it is now.
    Response::from_request(close("reopen")).await.expect(200);
    assert_eq!(origin(&service).await.0, json!(commit('1')));
}

super::on_both!(
    another_flow_cannot_replace_the_origin_of_an_artifact,
    commit_of_a_later_attestation_completes_the_origin,
    flow_that_owns_the_repository_determines_the_origin,
    attestation_must_not_name_what_its_flow_does_not_own,
    repository_of_another_provider_does_not_hide_the_recorded_one,
    closed_repository_makes_the_next_claim_count,
);
