//! Rate limit for invalid tokens and sessions; valid ones are never limited.

use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use service::Limits;
use tokio::task::JoinSet;

use crate::service::report;
use crate::service::support::browser::{Browser, assert_contains};
use crate::service::support::process::{Process, client};
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{ADMIN, Database, EXPIRED, READER, Response, TestService};

const GUESSED: &str = "guessed-0123456789abcdef0123456";

async fn start(database: Database, limits: &Limits) -> TestService {
    let limits = *limits;
    TestService::start_with(database, Options { limits, ..Options::default() }).await
}

async fn address_with_ten_invalid_tokens_gets_429_and_valid_tokens_pass(database: Database) {
    let service = start(database, &Limits::default()).await;
    let url = format!("{}/api/v2/trails/acme", service.base);
    for n in 0..4 {
        service.get(&format!("{GUESSED}{n}"), "/trails/acme").await.expect(401);
        service.get(EXPIRED, "/trails/acme").await.expect(401);
    }
    // A missing token counts as invalid; 403 and 404 do not count.
    Response::from_request(service.http.get(&url)).await.expect(401);
    Response::from_request(service.http.get(&url).basic_auth("reader", Some(READER))).await.expect(401);
    service.report(READER, "prod", report(&[])).await.expect(403);
    service.get(READER, "/attestations/acme/nothing").await.expect(404);
    for _ in 0..3 {
        for response in [
            service.get(GUESSED, "/trails/acme").await,
            service.get(GUESSED, "/trails/nowhere").await,
            service.report(GUESSED, "prod", report(&[])).await,
            Response::from_request(service.http.get(&url)).await,
        ] {
            let response = response.expect(429);
            let seconds: u64 = response.headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
            assert!(response.json()["message"].as_str().unwrap().contains("Retry-After"), "{response:?}");
        }
    }
    service.get(READER, "/trails/acme").await.expect(200);
    // Valid tokens pass even on first use, such as those of agents behind the same proxy, or after a reload.
    service.get(ADMIN, "/trails/acme").await.expect(200);
    let later = bootstrap(2, "")
        .replace(&format!("file: {EXPIRED}, expires: 2020-01-01T00:00:00Z"), &format!("file: {EXPIRED}"));
    service.reload(&later).await;
    service.get(EXPIRED, "/trails/acme").await.expect(200);
    // Requests that need no token pass.
    Response::from_request(service.http.get(format!("{}/api/v2/openapi.json", service.base)))
        .await
        .expect(200);
}

/// The status of a request with an invalid token that has these headers.
async fn guess(service: &TestService, headers: &[(&str, &str)]) -> u16 {
    let mut request = service.request(Method::GET, GUESSED, "/trails/acme");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Response::from_request(request).await.status.as_u16()
}

async fn clients_of_a_trusted_proxy_are_limited_by_their_own_addresses(database: Database) {
    let limits = Limits { invalid_tokens: 1, ..Limits::default() };
    let options = Options { limits, trusted_proxies: &["127.0.0.0/8"], ..Options::default() };
    let service = TestService::start_with(database, options).await;
    for (address, status) in [
        ("203.0.113.7", 401),
        ("203.0.113.7", 429),
        // What the client sent is in front of its address.
        ("198.51.100.1, 203.0.113.7", 429),
        ("203.0.113.8", 401),
        ("2001:db8::1", 401),
        ("2001:db8::2", 429),
    ] {
        assert_eq!(guess(&service, &[("x-forwarded-for", address)]).await, status, "{address}");
    }
    assert_eq!(guess(&service, &[("forwarded", "for=203.0.113.7")]).await, 429);
    assert_eq!(guess(&service, &[("forwarded", "for=\"[2001:db8:1::1]:443\";proto=https")]).await, 401);
    let lines = [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.7")];
    assert_eq!(guess(&service, &lines).await, 429);
    // Garbage counts for the proxy.
    assert_eq!(guess(&service, &[("x-forwarded-for", "garbage")]).await, 401);
    assert_eq!(guess(&service, &[("x-forwarded-for", "203.0.113.9, garbage")]).await, 429);
}

async fn forwarding_headers_of_other_clients_are_ignored(database: Database) {
    let limits = Limits { invalid_tokens: 1, ..Limits::default() };
    let options = Options { limits, trusted_proxies: &["192.0.2.0/24"], ..Options::default() };
    let service = TestService::start_with(database, options).await;
    assert_eq!(guess(&service, &[("x-forwarded-for", "203.0.113.7")]).await, 401);
    for name in ["x-forwarded-for", "forwarded"] {
        assert_eq!(guess(&service, &[(name, "203.0.113.8")]).await, 429);
        assert_eq!(guess(&service, &[(name, "for=203.0.113.9")]).await, 429);
    }
}

async fn rate_limit_expires(database: Database) {
    let within = Duration::from_millis(300);
    let limits = Limits { invalid_tokens: 1, invalid_tokens_within: within, ..Limits::default() };
    let service = start(database, &limits).await;
    service.get(GUESSED, "/trails/acme").await.expect(401);
    eventually("an invalid token is checked again", async || {
        service.get(GUESSED, "/trails/acme").await.status == 401
    })
    .await;
}

async fn removed_token_is_rate_limited(database: Database) {
    let limits = Limits { invalid_tokens: 2, ..Limits::default() };
    let service = start(database, &limits).await;
    service.get(READER, "/trails/acme").await.expect(200);
    let without =
        bootstrap(2, "").lines().filter(|line| !line.contains(READER)).collect::<Vec<_>>().join("\n");
    service.reload(&without).await;
    for status in [401, 401, 429] {
        service.get(READER, "/trails/acme").await.expect(status);
    }
}

async fn rate_limited_request_does_not_query_the_database(database: Database) {
    let service = start(database, &Limits { invalid_tokens: 1, ..Limits::default() }).await;
    service.get(GUESSED, "/trails/acme").await.expect(401);
    service.database.set_reachable(false).await;
    service.get(GUESSED, "/trails/acme").await.expect(429);
    service.database.set_reachable(true).await;
}

/// A browser with a session that the service does not know.
fn guessing<'a>(service: &'a TestService, signed_in: &Browser<'a>, guess: &str) -> Browser<'a> {
    let (name, _) = signed_in.cookie.as_ref().unwrap().split_once('=').unwrap();
    let mut browser = Browser::new(service);
    browser.cookie = Some(format!("{name}={guess}"));
    browser
}

/// A unit test shows that the service looks up one such session at a time.
async fn unknown_sessions_of_a_limited_address_get_429(database: Database) {
    let service = start(database, &Limits { invalid_tokens: 3, ..Limits::default() }).await;
    let mut user = Browser::signed_in(&service, READER).await;
    for (guess, path) in [("a", "/ui"), ("b", "/ui/acme"), ("c", "/ui/acme/elsewhere/x")] {
        // Signed-in users pass in between.
        assert_eq!(user.get("/ui/acme").await.status, 200);
        let response = guessing(&service, &user, guess).get(path).await;
        assert!(response.status == 303 || response.status == 404, "{response:?}");
    }
    for (guess, path) in [("a", "/ui"), ("d", "/ui/acme"), ("e", "/ui/nowhere/x")] {
        let response = guessing(&service, &user, guess).get(path).await;
        assert_eq!(response.status, 429, "{response:?}");
        assert!(response.headers.contains_key("retry-after"), "{response:?}");
        assert_contains(&response.text, &["without a valid token or session", "href=\"/ui/sign-in\""]);
    }
    let mut guess = guessing(&service, &user, "f");
    assert_eq!(guess.post("/ui/sign-out", &service.base, &[]).await.status, 429);
    // Concurrent guesses get 429 too, whether or not they were looked up.
    let mut guesses = JoinSet::new();
    for n in 0..20 {
        let request = service.http.get(format!("{}/ui/acme", service.base));
        guesses.spawn(Response::from_request(request.header("Cookie", format!("supercargo={n}"))));
    }
    for response in guesses.join_all().await {
        assert_eq!(response.status, 429, "{response:?}");
    }
    // The sign-in page needs no session.
    service.database.set_reachable(false).await;
    assert_eq!(guess.get("/ui/sign-in").await.status, 200);
    service.database.set_reachable(true).await;
    assert_eq!(user.get("/ui/acme").await.status, 200);
    assert_eq!(guess.sign_in(ADMIN, "").await.status, 303);
    assert_eq!(guess.get("/ui/acme").await.status, 200);
}

async fn valid_session_from_before_a_restart_works_for_a_limited_address(database: Database) {
    let service = start(database, &Limits::default()).await;
    let cookie = Browser::signed_in(&service, READER).await.cookie;
    let database = service.stop().await;
    let service = start(database, &Limits { invalid_tokens: 1, ..Limits::default() }).await;
    let mut user = Browser::new(&service);
    user.cookie = cookie;
    for (guess, status) in [("a", 303), ("b", 429), ("c", 429)] {
        assert_eq!(guessing(&service, &user, guess).get("/ui/acme").await.status, status, "{guess}");
    }
    assert_eq!(user.get("/ui/acme").await.status, 200);
    assert_eq!(guessing(&service, &user, "d").get("/ui/acme").await.status, 429);
}

async fn sessions_that_ended_do_not_limit_their_address(database: Database) {
    let service = start(database, &Limits { invalid_tokens: 1, ..Limits::default() }).await;
    let mut browsers = Vec::new();
    for _ in 0..3 {
        browsers.push(Browser::signed_in(&service, READER).await);
    }
    // The service deletes sessions after the idle timeout.
    service.database.execute("DELETE FROM sessions").await;
    for (browser, path) in browsers.iter_mut().zip(["/ui", "/ui/acme", "/ui/nowhere"]) {
        let ended = browser.cookie.clone();
        for _ in 0..2 {
            browser.cookie.clone_from(&ended);
            assert_eq!(browser.get(path).await.status, 303, "{path}");
            assert_eq!(browser.cookie, None, "{path}: the redirect deletes the cookie");
        }
        let anonymous = browser.get(path).await;
        assert!(anonymous.status == 303 && !anonymous.headers.contains_key("set-cookie"), "{anonymous:?}");
    }
    // An invalid token is the first failure.
    service.get(GUESSED, "/trails/acme").await.expect(401);
    service.get(GUESSED, "/trails/acme").await.expect(429);
}

async fn browser_of_an_ended_session_can_sign_in_again(database: Database) {
    let service = start(database, &Limits { invalid_tokens: 2, ..Limits::default() }).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let mut other = Browser::signed_in(&service, READER).await;
    let (mut stale, ended) = (Browser::new(&service), browser.cookie.clone());
    assert_eq!(browser.post("/ui/sign-out", &service.base, &[]).await.status, 303);
    for _ in 0..4 {
        stale.cookie.clone_from(&ended);
        assert_eq!(stale.get("/ui/acme").await.status, 303);
        stale.cookie.clone_from(&ended);
        assert_eq!(stale.get("/ui/sign-in").await.status, 200);
    }
    assert_eq!(other.get("/ui/acme").await.status, 200);
    assert_eq!(stale.sign_in(READER, "").await.status, 303);
    assert_eq!(stale.get("/ui/acme").await.status, 200);
}

async fn sign_in_link_works_for_a_rate_limited_address(database: Database) {
    let limits = Limits { invalid_tokens: 2, ..Limits::default() };
    let options = Options { limits, invites: true, ..Options::default() };
    let service = TestService::start_with(database, options).await;
    for status in [403, 403, 429, 429] {
        let response = Browser::new(&service).get("/ui/sign-in?once=guessed").await;
        assert_eq!(response.status, status, "{response:?}");
    }
    let link = service.invitation.clone().unwrap();
    let path = link.strip_prefix(&service.base).unwrap();
    let mut browser = Browser::new(&service);
    assert_eq!(browser.get(path).await.status, 303);
    assert_eq!(browser.get("/ui/acme").await.status, 200);
    assert_eq!(Browser::new(&service).get(path).await.status, 429, "the link can be used once");
}

/// Each request is in a line, or in the count of one.
async fn access_log_counts_a_flood_without_tokens(database: Database) {
    const REQUESTS: usize = 200;
    let process = Process::start(&database.url());
    let http = client();
    for _ in 0..REQUESTS {
        let request = http.get(format!("{}/api/v2/trails/acme", process.base));
        assert!(Response::from_request(request).await.status.is_client_error());
    }
    let request = http.get(format!("{}/api/v2/trails/acme", process.base)).bearer_auth(READER);
    Response::from_request(request).await.expect(200);
    process.signal(Signal::SIGTERM);
    let (_, log) = process.wait();
    let (lines, counts): (Vec<_>, Vec<_>) = log
        .lines()
        .filter(|line| line.contains("127.0.0.1 - "))
        .partition(|line| line.contains("GET /api/v2/trails/acme"));
    let count = |line: &&str| -> usize {
        let (_, after) = line.split_once("127.0.0.1 - ").unwrap();
        after.split(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(lines.len() + counts.iter().map(count).sum::<usize>(), REQUESTS, "{log}");
    assert!(lines.len() + counts.len() < REQUESTS / 4, "{log}");
    assert!(log.contains("127.0.0.1 reader GET /api/v2/trails/acme 200"), "{log}");
}

crate::service::on_sqlite!(
    access_log_counts_a_flood_without_tokens,
    address_with_ten_invalid_tokens_gets_429_and_valid_tokens_pass,
    clients_of_a_trusted_proxy_are_limited_by_their_own_addresses,
    forwarding_headers_of_other_clients_are_ignored,
    rate_limit_expires,
    removed_token_is_rate_limited,
    rate_limited_request_does_not_query_the_database,
    unknown_sessions_of_a_limited_address_get_429,
    valid_session_from_before_a_restart_works_for_a_limited_address,
    sessions_that_ended_do_not_limit_their_address,
    browser_of_an_ended_session_can_sign_in_again,
    sign_in_link_works_for_a_rate_limited_address,
);
