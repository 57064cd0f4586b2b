//! Those who send wrong tokens wait, and nobody else does.

use std::time::Duration;

use supercargo::service::Policy;

use super::browser::Browser;
use super::running::{Options, bootstrap, eventually};
use super::{ADMIN, Answer, Database, EXPIRED, READER, Running, report};

const GUESSED: &str = "guessed-0123456789abcdef0123456";

/// A service as it is without any option.
async fn start(database: Database, policy: &Policy) -> Running {
    let policy = *policy;
    Running::start_with(database, Options { policy, ..Options::default() }).await
}

async fn ten_wrong_tokens_make_an_address_wait_but_not_a_token_that_is_valid(database: Database) {
    let service = start(database, &Policy::default()).await;
    let url = format!("{}/api/v2/trails/acme", service.base);
    for n in 0..4 {
        service.get(&format!("{GUESSED}{n}"), "/trails/acme").await.expect(401);
        service.get(EXPIRED, "/trails/acme").await.expect(401);
    }
    // None at all is as wrong as any, and 403 and 404 are no reason to wait.
    Answer::of(service.http.get(&url)).await.expect(401);
    Answer::of(service.http.get(&url).basic_auth("reader", Some(READER))).await.expect(401);
    service.report(READER, "prod", report(&[])).await.expect(403);
    service.get(READER, "/attestations/acme/nothing").await.expect(404);
    for _ in 0..3 {
        for answer in [
            service.get(GUESSED, "/trails/acme").await,
            service.get(GUESSED, "/trails/nowhere").await,
            service.report(GUESSED, "prod", report(&[])).await,
            Answer::of(service.http.get(&url)).await,
        ] {
            let answer = answer.expect(429);
            let seconds: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
            assert!(answer.json()["message"].as_str().unwrap().contains("Retry-After"), "{answer:?}");
        }
    }
    service.get(READER, "/trails/acme").await.expect(200);
    // One that was never used before, as those of agents behind the same proxy after a restart; or that came later.
    service.get(ADMIN, "/trails/acme").await.expect(200);
    let later = bootstrap(2, "")
        .replace(&format!("file: {EXPIRED}, expires: 2020-01-01T00:00:00Z"), &format!("file: {EXPIRED}"));
    service.reload(&later).await;
    service.get(EXPIRED, "/trails/acme").await.expect(200);
    // What needs no token is there for everybody.
    Answer::of(service.http.get(format!("{}/api/v2/openapi.json", service.base))).await.expect(200);
}

async fn who_waited_is_asked_again(database: Database) {
    let within = Duration::from_millis(300);
    let policy = Policy { wrong_tokens: 1, wrong_tokens_within: within, ..Policy::default() };
    let service = start(database, &policy).await;
    service.get(GUESSED, "/trails/acme").await.expect(401);
    eventually("a wrong one is looked at", async || service.get(GUESSED, "/trails/acme").await.status == 401)
        .await;
}

async fn a_token_that_was_valid_and_is_no_longer_waits_like_others(database: Database) {
    let policy = Policy { wrong_tokens: 2, ..Policy::default() };
    let service = start(database, &policy).await;
    service.get(READER, "/trails/acme").await.expect(200);
    let without =
        bootstrap(2, "").lines().filter(|line| !line.contains(READER)).collect::<Vec<_>>().join("\n");
    service.reload(&without).await;
    for status in [401, 401, 429] {
        service.get(READER, "/trails/acme").await.expect(status);
    }
}

async fn the_database_is_not_asked_about_those_who_wait(database: Database) {
    let service = start(database, &Policy { wrong_tokens: 1, ..Policy::default() }).await;
    service.get(GUESSED, "/trails/acme").await.expect(401);
    service.database.set_reachable(false).await;
    service.get(GUESSED, "/trails/acme").await.expect(429);
    service.database.set_reachable(true).await;
}

async fn a_link_that_signs_in_is_good_whatever_others_guessed(database: Database) {
    let policy = Policy { wrong_tokens: 2, ..Policy::default() };
    let options = Options { policy, invites: true, ..Options::default() };
    let service = Running::start_with(database, options).await;
    for status in [403, 403, 429, 429] {
        let answer = Browser::of(&service).get("/ui/sign-in?once=guessed").await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let link = service.invitation.clone().unwrap();
    let path = link.strip_prefix(&service.base).unwrap();
    let mut browser = Browser::of(&service);
    assert_eq!(browser.get(path).await.status, 303);
    assert_eq!(browser.get("/ui/acme").await.status, 200);
    assert_eq!(Browser::of(&service).get(path).await.status, 429, "it was used");
}

super::on_sqlite!(
    ten_wrong_tokens_make_an_address_wait_but_not_a_token_that_is_valid,
    who_waited_is_asked_again,
    a_token_that_was_valid_and_is_no_longer_waits_like_others,
    the_database_is_not_asked_about_those_who_wait,
    a_link_that_signs_in_is_good_whatever_others_guessed,
);
