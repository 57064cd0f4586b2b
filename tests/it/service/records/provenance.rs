//! Origins of artifacts: who may name them, what counts, and how an administrator corrects them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::bootstrap;
use crate::service::records::log::log;
use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::test_service::Options;
use crate::service::{ADMIN, ATTESTER, Database, READER, Response, TestService, digest, form, pod};

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

async fn commit_without_a_repository_is_that_of_the_first_attestation(database: Database) {
    let service = TestService::start(database).await;
    for (flow, digit) in [("secure", '1'), ("cart", '2')] {
        let mut data = attestation('a', digit, &Value::Null);
        data.as_object_mut().unwrap().remove("repo_info");
        service.attest(ADMIN, flow, "t", form(&data)).await.expect(201);
    }
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{}", digest('a'))).await;
    assert!(page.contains(&commit('1')) && !page.contains(&commit('2')), "{page}");
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

async fn declared_repository_is_recognized_in_other_forms(database: Database) {
    let service = start(database, "{name: secure, repositories: [acme/secure]}").await;
    let named = |name: &str| json!({"name": name});
    let cart = |url: &str| json!({"name": "acme/cart", "url": url});
    let with_commit = |url: &str| {
        let mut data = attestation('a', '1', &named("acme/cart"));
        data["git_commit_info"]["url"] = json!(url);
        data
    };
    let mut of_target = attestation('a', '1', &named("ACME/Secure"));
    of_target["target_artifacts"] = json!(["web", digest('b')]);
    of_target.as_object_mut().unwrap().remove("artifact_fingerprint");
    for data in [
        attestation('a', '1', &named("Acme/Secure")),
        attestation('a', '1', &named("acme/secure.git")),
        attestation('a', '1', &json!({"name": "acme/secure", "provider": "gitlab"})),
        attestation('a', '1', &cart("https://github.com/acme/secure")),
        attestation('a', '1', &cart("https://github.com/Acme/%53ecure.git/")),
        attestation('a', '1', &cart("git@git.example.com:acme/secure.git")),
        with_commit("https://github.com/acme/secure/commit/1"),
        of_target,
    ] {
        let refused = service.attest(ATTESTER, "cart", "t", form(&data)).await.expect(403).json();
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.to_lowercase().contains("/secure") && message.contains("another flow"),
            "{data}: {message}"
        );
    }
    assert_eq!(service.database.rows("SELECT name FROM repositories").await, [] as [&str; 0]);
    attest(
        &service,
        "secure",
        'a',
        '1',
        &json!({"name": "Acme/Secure", "url": "https://github.com/acme/secure/"}),
    )
    .await;
}

async fn flow_of_the_image_determines_the_origin(database: Database) {
    let flows = "{name: secure, repositories: [acme/cart], images: ['registry.example/cart*']},
                 {name: evil, repositories: ['evil/*']}";
    let service = start(database, flows).await;
    // Both own repositories, and the artifact does not run yet.
    attest(&service, "evil", 'a', '6', &json!({"name": "evil/phish"})).await;
    attest(&service, "secure", 'a', '1', &repository(CART)).await;
    service.report(ADMIN, "prod", report(&[pod("p", "registry.example/cart:1", 'a')])).await.expect(201);
    assert_eq!(service.read(LIVE).await["live_artifacts"], json!([]));
    attest(&service, "secure", 'a', '2', &repository(CART)).await;
    let (sha, _, conflicts) = origin(&service).await;
    assert_eq!((sha, conflicts), (json!(commit('1')), json!(1)));
    attest(&service, "evil", 'a', '6', &json!({"name": "evil/again"})).await;
    assert_eq!(origin(&service).await.2, json!(2));
    let audited =
        service.database.rows("SELECT change FROM audit WHERE change LIKE '%origin%' ORDER BY id").await;
    assert_eq!(audited.len(), 3, "{audited:?}");
    assert_eq!(audited[1], "attestation \"unit\" in flow secure replaced the origin of 1 of its artifacts");
    assert!(audited[2].starts_with("attestation \"unit\" in flow evil names another origin"), "{audited:?}");
    // The origin of the highest priority counts after another one was closed.
    let path = "/repos/acme/close/acme/cart?provider=github";
    Response::from_request(service.request(Method::PUT, ADMIN, path)).await.expect(200);
    attest(&service, "other", 'a', '7', &json!({"name": "other/x"})).await;
    let rows = "SELECT r.name FROM provenance p JOIN repositories r ON r.id = p.repository";
    assert_eq!(service.database.rows(rows).await, ["evil/phish"]);
}

async fn url_of_a_repository_is_that_of_its_first_flow_or_owner(database: Database) {
    let service = TestService::start(database).await;
    let url = "SELECT COALESCE(url, 'none') FROM repositories";
    attest(&service, "first", 'a', '1', &json!({"name": "acme/cart"})).await;
    attest(&service, "other", 'a', '1', &json!({"name": "acme/cart", "url": "https://evil.example/phish"}))
        .await;
    assert_eq!(service.database.rows(url).await, ["none"]);
    let page = Browser::read_page(&service, &format!("/ui/acme/artifacts/{}", digest('a'))).await;
    assert_contains(&page, &["Conflicting origins", "https://evil.example/phish"]);
    assert!(!page.contains("evil.example/phish\""), "{page}");
    attest(&service, "first", 'b', '1', &json!({"name": "acme/cart", "url": "https://git.example/first"}))
        .await;
    assert_eq!(service.database.rows(url).await, ["https://git.example/first"]);
    // The URL of a flow that owns the repository replaces it.
    service.reload(&bootstrap(2, "    flows: [{name: owner, repositories: [acme/cart]}]")).await;
    for named in ["https://git.example/acme/cart", "https://git.example/acme/other"] {
        attest(&service, "owner", 'b', '1', &json!({"name": "acme/cart", "url": named})).await;
        assert_eq!(service.database.rows(url).await, ["https://git.example/acme/cart"]);
    }
    let audited =
        service.database.rows("SELECT change FROM audit WHERE change LIKE '%named%' ORDER BY id").await;
    let change = |flow: &str, url: &str| format!("flow {flow} named the repository acme/cart: {url}");
    let changes = [
        change("first", "without a URL"),
        change("first", "https://git.example/first"),
        change("owner", "https://git.example/acme/cart"),
    ];
    assert_eq!(audited, changes);
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
    change(&service, ADMIN, "close", "git").await.expect(404);
    change(&service, ADMIN, "close", "gitlab").await.expect(200);
    assert_eq!(origin(&service).await.0, json!(commit('1')));
    service.get(READER, &format!("{LIVE}?provider=gitlab")).await.expect(404);
    let data = attestation('b', '3', &json!({"name": "acme/cart", "provider": "gitlab"}));
    let rejected = service.attest(ADMIN, "cart", "t", form(&data)).await.expect(400).json();
    assert!(rejected["errors"]["repo_info.name"].as_str().unwrap().contains("closed"), "{rejected}");
    change(&service, ADMIN, "reopen", "gitlab").await.expect(200);
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service.get(READER, LIVE).await.assert_field_error("provider", "expected one of github, gitlab");
    let audited = service
        .database
        .rows(
            "SELECT change FROM audit WHERE change LIKE '%ed the repository acme/cart at gitlab' ORDER BY id",
        )
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
    // The first one counts again.
    Response::from_request(close("reopen")).await.expect(200);
    assert_eq!(service.read(LIVE).await["live_artifacts"], json!([]));
}

/// The order of claims of one rank is that of their recording, whichever got the rank first, and whichever counted meanwhile.
async fn origin_of_equal_rank_is_the_first_that_was_recorded(database: Database) {
    let service = TestService::start(database).await;
    let named = |name: &str| json!({"name": name});
    let verified = async |expected: i32, messages: &[&str]| {
        log(&service, &["verify"]).await.expect(expected, messages);
    };
    let rows = "SELECT p.flow FROM provenance p";
    attest(&service, "one", 'a', '1', &named("acme/one")).await;
    attest(&service, "two", 'a', '2', &named("acme/two")).await;
    assert_eq!(service.database.rows(rows).await, ["one"]);
    let two = "{name: two, repositories: [acme/two]}";
    for (generation, flows, flow, commit, expected) in [
        (2, two.to_owned(), "two", '3', "two"),
        (3, format!("{{name: one, repositories: [acme/one]}}, {two}"), "one", '4', "one"),
    ] {
        service.reload(&bootstrap(generation, &format!("    flows: [{flows}]"))).await;
        attest(&service, flow, 'a', commit, &named(&format!("acme/{flow}"))).await;
        assert_eq!(service.database.rows(rows).await, [expected]);
        verified(0, &[]).await;
    }
    for (change, expected) in [("close", "two"), ("reopen", "one")] {
        let request = service.request(Method::PUT, ADMIN, &format!("/repos/acme/{change}/acme/one"));
        Response::from_request(request).await.expect(200);
        assert_eq!(service.database.rows(rows).await, [expected]);
        verified(0, &[]).await;
    }
    // A later claim of the same rank in its place.
    let later = "DELETE FROM provenance;
        INSERT INTO provenance (organization, repository, fingerprint, flow, commit_sha, commit_url, reported_by,
                                recorded_at, priority)
        SELECT organization, repository, fingerprint, flow, commit_sha, commit_url, reported_by, recorded_at, priority
        FROM claims WHERE flow = 'two'";
    service.database.execute(later).await;
    verified(11, &["1 rows of kind unexplained-origin"]).await;
}

async fn repository_of_a_provider_that_ignores_case_is_found_under_each_spelling(database: Database) {
    let service = TestService::start(database).await;
    let repository = |name: &str, provider: &str| json!({"name": name, "provider": provider});
    for name in ["PAY/cart", "pay/cart"] {
        attest(&service, "cart", 'a', '1', &repository(name, "bitbucket_dc")).await;
    }
    attest(&service, "cart", 'b', '1', &repository("Acme/Cart", "github")).await;
    let names = "SELECT name FROM repositories ORDER BY created_at";
    assert_eq!(service.database.rows(names).await, ["PAY/cart", "Acme/Cart"]);
    service.report(ADMIN, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    for name in ["PAY/cart", "pay/cart", "Pay/Cart"] {
        let live = service.read(&format!("/repos/acme/live-artifacts/{name}")).await;
        assert_eq!(live["live_artifacts"].as_array().unwrap().len(), 1, "{name}");
        let built = service.read(&format!("/artifacts/acme?repo_name={name}")).await;
        assert!(built.to_string().contains(&digest('a')), "{name}: {built}");
    }
    service.get(READER, LIVE).await.expect(404);
    // A closed one does not return in another case.
    let close = service.request(Method::PUT, ADMIN, "/repos/acme/close/PAY/cart?provider=bitbucket_dc");
    Response::from_request(close).await.expect(200);
    let again = form(&attestation('a', '1', &repository("PAY/Cart", "bitbucket")));
    service.attest(ADMIN, "cart", "t", again).await.assert_field_error("repo_info.name", "closed");
}

crate::service::on_both!(
    repository_of_a_provider_that_ignores_case_is_found_under_each_spelling,
    another_flow_cannot_replace_the_origin_of_an_artifact,
    commit_of_a_later_attestation_completes_the_origin,
    commit_without_a_repository_is_that_of_the_first_attestation,
    flow_that_owns_the_repository_determines_the_origin,
    attestation_must_not_name_what_its_flow_does_not_own,
    declared_repository_is_recognized_in_other_forms,
    flow_of_the_image_determines_the_origin,
    url_of_a_repository_is_that_of_its_first_flow_or_owner,
    repository_of_another_provider_does_not_hide_the_recorded_one,
    closed_repository_makes_the_next_claim_count,
    origin_of_equal_rank_is_the_first_that_was_recorded,
);
