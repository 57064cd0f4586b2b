//! Tokens, roles and organizations.

use reqwest::Method;
use serde_json::json;

use super::running::bootstrap;
use super::{
    ADMIN, ATTESTER, Answer, Database, EXPIRED, READER, REPORTER, Running, STRANGER, digest, form, pod,
    report,
};

/// The nine operations in the organization: reporting `prod` and `test`, attesting in `cart` and `web`,
/// and the seven that read, of which two ask for what is not there.
async fn operations(service: &Running, token: &str, organization: &str) -> Vec<u16> {
    let mut answers = Vec::new();
    for environment in ["prod", "test"] {
        let path = format!("/environments/{organization}/{environment}/report/K8S");
        let request = service.request(Method::PUT, token, &path).header("Content-Type", "application/json");
        answers.push(Answer::of(request.body(report(&[pod("p", "i", 'a')]))).await);
    }
    for flow in ["cart", "web"] {
        let path = format!("/attestations/{organization}/{flow}/trail/t/junit");
        let data = json!({
            "attestation_name": "unit", "junit_results": [], "repo_info": {"name": "acme/cart"},
        });
        answers.push(Answer::of(service.request(Method::POST, token, &path).multipart(form(&data))).await);
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
        answers.push(service.get(token, &path).await);
    }
    // Of another organization nothing is said but that.
    for answer in answers.iter().filter(|answer| answer.status == 403 && organization != "acme") {
        assert_eq!(answer.text, r#"{"message":"this token belongs to another organization"}"#);
    }
    answers.iter().map(|answer| answer.status.as_u16()).collect()
}

async fn each_role_does_what_it_is_for_and_nothing_else(database: Database) {
    let service = Running::start(database).await;
    for (token, expected) in [
        (ADMIN, [201, 201, 201, 201, 200, 200, 200, 200, 404, 200, 404]),
        (REPORTER, [200, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403]),
        (ATTESTER, [403, 403, 201, 403, 403, 403, 403, 403, 403, 403, 403]),
        (READER, [403, 403, 403, 403, 200, 200, 200, 200, 404, 200, 404]),
        (STRANGER, [403; 11]),
        (EXPIRED, [401; 11]),
        ("guessed-0123456789abcdef01234567", [401; 11]),
    ] {
        assert_eq!(operations(&service, token, "acme").await, expected, "{token}");
    }
}

async fn who_may_not_is_told_what_it_takes_and_no_more(database: Database) {
    let service = Running::start(database).await;
    let put = |token, environment: &str| {
        let path = format!("/environments/acme/{environment}/report/K8S");
        service.request(Method::PUT, token, &path)
    };
    let post = |token| service.request(Method::POST, token, "/attestations/acme/web/trail/t/junit");
    for (request, message) in [
        (put(READER, "prod"), "this takes a token of role report or admin, and this one is of role read"),
        (put(REPORTER, "nowhere"), "this token is of role report, and does not list this environment"),
        (put(STRANGER, "prod"), "this token belongs to another organization"),
        (post(REPORTER), "this takes a token of role attest or admin, and this one is of role report"),
        (post(ATTESTER), "this token is of role attest, and does not list this flow"),
        (
            service.request(Method::GET, ATTESTER, "/trails/acme"),
            "this takes a token of role read or admin, and this one is of role attest",
        ),
    ] {
        let answer = Answer::of(request).await.expect(403);
        assert_eq!(answer.text, json!({ "message": message }).to_string());
    }
}

async fn an_organization_that_is_not_there_answers_as_one_that_is_another_s(database: Database) {
    let service = Running::start(database).await;
    for token in [ADMIN, READER, REPORTER, ATTESTER] {
        for organization in ["stranger", "nowhere", "a%00b", "%F0%9F%9A%A2"] {
            assert_eq!(operations(&service, token, organization).await, [403; 11], "{token} {organization}");
        }
    }
}

async fn without_one_valid_bearer_token_the_answer_is_401_and_says_nothing_else(database: Database) {
    let service = Running::start(database).await;
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
            let answer = Answer::of(request).await.expect(401);
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            texts.push(answer.text);
        }
        assert_eq!(texts[0], texts[1], "{headers:?}");
    }
    // The scheme is a word in any case.
    let lower = service.http.get(url("acme")).header("Authorization", format!("bearer {READER}"));
    Answer::of(lower).await.expect(200);
}

async fn wrong_tokens_get_identical_401_for_any_organization(database: Database) {
    let service = Running::start(database).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut guesses = tokio::task::JoinSet::new();
    for worker in 0..10 {
        let (http, base) = (service.http.clone(), service.base.clone());
        guesses.spawn(async move {
            let mut texts = std::collections::BTreeSet::new();
            for n in 0..1_000 {
                let organization = if n % 2 == 0 { "acme" } else { "nowhere" };
                let request = http.get(format!("{base}/api/v2/trails/{organization}"));
                let answer = Answer::of(request.bearer_auth(format!("guess-{worker}-{n}"))).await;
                texts.insert((answer.status.as_u16(), answer.text));
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

async fn a_token_that_is_taken_out_of_the_file_no_longer_works_and_two_may_overlap(database: Database) {
    let service = Running::start(database).await;
    let second = "second-0123456789abcdef012345678";
    let hash = supercargo::domain::model::Fingerprint::of(second.as_bytes());
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
    // It is closed with a time, and not deleted.
    let closed = "SELECT name FROM tokens WHERE closed_at IS NOT NULL";
    assert_eq!(service.database.rows(closed).await, ["reader"]);
}

super::on_both!(
    each_role_does_what_it_is_for_and_nothing_else,
    wrong_tokens_get_identical_401_for_any_organization,
    a_token_that_is_taken_out_of_the_file_no_longer_works_and_two_may_overlap,
);

super::on_sqlite!(
    who_may_not_is_told_what_it_takes_and_no_more,
    an_organization_that_is_not_there_answers_as_one_that_is_another_s,
    without_one_valid_bearer_token_the_answer_is_401_and_says_nothing_else,
);
