//! Requests to pages with a browser session: sign-in, sessions, headers and limits.

mod action;
mod approve;
mod artifact;
mod attestation;
mod compare;
mod environment;
mod policies;
mod search;
mod timeline;
mod trail;
mod untrusted_text;

use std::time::Duration;

use reqwest::Method;
use reqwest::header::LOCATION;
use rules::session;
use service::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::service::report;
use crate::service::support::browser::Browser;
use crate::service::support::test_service::{Options, bootstrap, eventually};
use crate::service::{
    ADMIN, ATTESTER, Database, EXPIRED, READER, REPORTER, Response, STRANGER, TestService, pod,
};

fn redirect_target(answer: &Response) -> &str {
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.headers[LOCATION].to_str().unwrap()
}

async fn session_starts_with_a_token_and_ends_with_sign_out(database: Database) {
    let service = TestService::start(database).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    let mut browser = Browser::new(&service);
    // An anonymous browser is redirected to the sign-in page, and returns to its page.
    let asked = browser.get("/ui/acme?at=x").await;
    assert_eq!(redirect_target(&asked), "/ui/sign-in?next=%2Fui%2Facme%3Fat%3Dx");
    let form = browser.get("/ui/sign-in?next=%2Fui%2Facme%3Fat%3Dx").await;
    assert_eq!(form.status, 200);
    assert!(form.text.contains(r#"name="next" value="/ui/acme?at=x""#), "{}", form.text);
    // Only the demo creates sign-in links.
    let form = browser.get("/ui/sign-in?once=0123456789abcdef0123456789abcdef").await;
    assert!(form.status == 200 && !form.text.contains("alert") && browser.cookie.is_none(), "{form:?}");
    assert_eq!(redirect_target(&browser.sign_in(READER, "/ui/acme?at=x").await), "/ui/acme?at=x");
    let page = browser.get("/ui/acme").await;
    assert_eq!(page.status, 200);
    for expected in ["prod", "1 artifact in 1 pod", "1 event in the last day", "no policy", "reader"] {
        assert!(page.text.contains(expected), "{expected}: {}", page.text);
    }
    assert_eq!(redirect_target(&browser.get("/ui").await), "/ui/acme");
    assert_eq!(redirect_target(&browser.get("/").await), "/ui");
    let cookie = browser.cookie.clone();
    let origin = service.base.clone();
    assert_eq!(redirect_target(&browser.post("/ui/sign-out", &origin, &[]).await), "/ui/sign-in");
    assert_eq!(browser.cookie, None);
    // The old cookie is no longer valid.
    browser.cookie = cookie;
    assert!(redirect_target(&browser.get("/ui/acme").await).starts_with("/ui/sign-in"));
    assert_eq!(service.database.rows("SELECT sha256 FROM sessions").await.len(), 0);
}

async fn session_requires_read_permission_and_is_limited_to_its_organization(database: Database) {
    let service = TestService::start(database).await;
    for token in [REPORTER, ATTESTER, EXPIRED, "guessed-0123456789abcdef0123", ""] {
        let mut browser = Browser::new(&service);
        let answer = browser.sign_in(token, "").await;
        assert_eq!(answer.status, 403, "{token}");
        assert!(answer.text.contains("Use a token of role read, approve or admin"), "{}", answer.text);
        assert!(token.is_empty() || !answer.text.contains(token));
        assert_eq!(browser.cookie, None);
    }
    let mut browser = Browser::signed_in(&service, STRANGER).await;
    assert_eq!(browser.get("/ui/stranger").await.status, 200);
    for path in ["/ui/acme", "/ui/nobody", "/ui/stranger/environments/prod"] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text.contains("you do not have access to it"), "{}", answer.text);
    }
}

async fn cross_site_forms_and_open_redirects_are_rejected(database: Database) {
    let service = TestService::start(database).await;
    let mut browser = Browser::new(&service);
    for origin in ["https://evil.example.com", "null", "http://127.0.0.1:1", ""] {
        let answer = browser.post("/ui/sign-in", origin, &[("token", READER)]).await;
        assert_eq!(answer.status, 403, "{origin}");
        assert!(answer.text.contains("was not sent by a page of this service"), "{}", answer.text);
    }
    for next in [
        "https://evil.example.com",
        "//evil.example.com",
        "/uievil",
        "/api/v2/trails/acme",
        "/ui/../api/v2/trails/acme",
        "/ui/%2e%2E/elsewhere",
        "/\\evil.example.com/ui",
        "ui/acme",
    ] {
        assert_eq!(redirect_target(&browser.sign_in(READER, next).await), "/ui/acme", "{next}");
    }
    assert_eq!(
        redirect_target(&browser.sign_in(READER, "/ui/\u{1}\u{e9}?q=\u{7f}").await),
        "/ui/%01%C3%A9?q=%7F"
    );
    let cookie = browser.cookie.clone();
    assert_eq!(browser.post("/ui/sign-out", "https://evil.example.com", &[]).await.status, 403);
    assert_eq!((browser.get("/ui/acme").await.status.as_u16(), &browser.cookie), (200, &cookie));
}

async fn sign_in_returns_to_the_requested_page_behind_a_proxy(database: Database) {
    let options = Options { public_url: Some("http://evidence.example.com/base/"), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let mut browser = Browser::new(&service);
    let sent = redirect_target(&browser.get("/ui/acme/search?q=a%26b").await).to_owned();
    let (form, next) = sent.split_once("?next=").unwrap();
    assert_eq!(form, "/base/ui/sign-in");
    let next = url::form_urlencoded::parse(format!("next={next}").as_bytes()).next().unwrap().1.into_owned();
    assert_eq!(next, "/base/ui/acme/search?q=a%26b");
    assert_eq!(redirect_target(&browser.sign_in(READER, &next).await), next);
}

async fn session_ends_with_its_token_and_after_the_idle_timeout(database: Database) {
    let session =
        session::SessionTimeouts { idle: Duration::from_millis(1), ..session::SessionTimeouts::default() };
    let limits = Limits { invalid_tokens: u32::MAX, session, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let path = "/ui/acme";
    let is_signed_out = async |browser: &mut Browser<'_>| browser.get(path).await.status == 303;
    while !is_signed_out(&mut browser).await {
        tokio::task::yield_now().await;
    }
    let database = service.stop().await;

    let service = TestService::start(database).await;
    let mut browser = Browser::signed_in(&service, ADMIN).await;
    assert_eq!(browser.get(path).await.status, 200);
    let mut unused = Browser::signed_in(&service, ADMIN).await;
    let without =
        bootstrap(2, "").replace(&format!("      - {{name: admin, role: admin, file: {ADMIN}}}\n"), "");
    service.reload(&without).await;
    assert!(is_signed_out(&mut browser).await);
    service.reload(&bootstrap(3, "")).await;
    assert!(is_signed_out(&mut unused).await, "a restored token does not restore its sessions");
}

async fn session_reads_the_data_of_its_pages_and_writes_nothing(database: Database) {
    let service = TestService::start(database).await;
    service.report(ADMIN, "prod", report(&[pod("p", "i", 'a')])).await.expect(201);
    let mut browser = Browser::signed_in(&service, ADMIN).await;
    let page = browser.get("/ui/acme/environments/prod").await;
    let link = "</api/v2/snapshots/acme/prod/-1>; rel=\"alternate\"; type=\"application/json\"";
    assert_eq!(page.headers["link"], link);
    assert!(page.text.contains("<code><bdi>supercargo get snapshot prod</bdi></code>"), "{}", page.text);
    let data = browser.get("/api/v2/snapshots/acme/prod/-1").await.expect(200);
    assert_eq!(data.json()["artifacts"], service.read("/snapshots/acme/prod/-1").await["artifacts"]);
    let cookie = browser.cookie.clone().unwrap();
    let request = |method: Method, path: &str| {
        let url = format!("{}/api/v2{path}", service.base);
        service.http.request(method, url).header("Cookie", &cookie).body("{}")
    };
    for (method, path, status) in [
        (Method::GET, "/environments/stranger", 403),
        (Method::PUT, "/environments/acme/prod/report/K8S", 401),
        (Method::POST, "/policies/acme/check", 401),
    ] {
        Response::from_request(request(method, path)).await.expect(status);
    }
    let invalid = request(Method::GET, "/environments/acme").bearer_auth("invalid");
    Response::from_request(invalid).await.expect(401);
    browser.post("/ui/sign-out", &service.base, &[]).await;
    Response::from_request(request(Method::GET, "/environments/acme")).await.expect(401);
}

async fn update_of_a_live_page_does_not_extend_the_session(database: Database) {
    let session =
        session::SessionTimeouts { touch_interval: Duration::ZERO, ..session::SessionTimeouts::default() };
    let limits = Limits { session, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let used = async || service.database.rows("SELECT CAST(last_used_at AS TEXT) FROM sessions").await;
    let before = used().await;
    let url = format!("{}/ui/acme", service.base);
    let update = service.http.get(url).header("Cookie", browser.cookie.as_ref().unwrap());
    Response::from_request(update.header("Supercargo-Update", "live")).await.expect(200);
    assert_eq!(used().await, before);
    browser.get("/ui/acme").await.expect(200);
    assert_ne!(used().await, before);
}

async fn environments_are_paginated(database: Database) {
    let names: Vec<_> = (0..450).map(|n| format!("{{name: e-{n:03}}}")).collect();
    let options = Options {
        bootstrap: bootstrap(1, &format!("    environments: [{}]", names.join(", "))),
        ..Options::default()
    };
    let service = TestService::start_with(database, options).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    for (query, expected) in
        [("", 0..200), ("?page=2", 200..400), ("?page=3", 400..450), ("?page=4", 400..450)]
    {
        let page = browser.get(&format!("/ui/acme{query}")).await.text;
        let shown: Vec<_> = (0..450).filter(|n| page.contains(&format!("environments/e-{n:03}\""))).collect();
        assert_eq!(shown, expected.collect::<Vec<_>>(), "{query}");
    }
    let page = browser.get("/ui/acme?page=2").await.text;
    for url in ["/ui/acme?page=1", "/ui/acme?page=3"] {
        assert!(page.contains(&format!("href=\"{url}\"")), "{page}");
    }
    assert_eq!(browser.get("/ui/acme?page=0").await.status, 400);
}

async fn non_compliant_and_declared_environments_are_listed_first(database: Database) {
    let declared = |generation, names: &str| {
        let required = "{name: y-required, policy: {approval: true}}";
        bootstrap(generation, &format!("    environments: [{names}{required}]"))
    };
    let file = declared(1, "{name: x-declared}, {name: w-declared}, ");
    let service = TestService::start_with(database, Options { bootstrap: file, ..Options::default() }).await;
    for environment in ["b-new", "a-new", "y-required", "x-declared"] {
        service.report(ADMIN, environment, report(&[pod("p", "image", 'a')])).await.expect(201);
    }
    let listed = async |service: &TestService| -> Vec<String> {
        let page = Browser::read_page(service, "/ui/acme").await;
        let cards = page.split("<h2><a href=\"/ui/acme/environments/").skip(1);
        cards.map(|card| card.split_once('"').unwrap().0.to_owned()).collect()
    };
    let all = ["y-required", "w-declared", "x-declared", "a-new", "b-new"];
    assert_eq!(listed(&service).await, all);
    service.reload(&declared(2, "{name: b-new}, ")).await;
    assert_eq!(listed(&service).await, ["y-required", "b-new", "a-new", "w-declared", "x-declared"]);
}

async fn pages_have_security_headers(database: Database) {
    let options =
        Options { bootstrap: bootstrap(1, "    environments: [{name: prod}]"), ..Options::default() };
    let service = TestService::start_with(database, options).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let page = browser.get("/ui/acme").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("never"), "{}", page.text);
    for answer in [page, browser.get("/ui/nothing/there").await, Browser::new(&service).get("/ui/acme").await]
    {
        let header = |name: &str| answer.headers[name].to_str().unwrap();
        assert!(header("content-security-policy").starts_with("default-src 'none';"), "{answer:?}");
        assert!(!header("content-security-policy").contains("unsafe"), "{answer:?}");
        assert_eq!(header("x-frame-options"), "DENY");
        assert_eq!(header("referrer-policy"), "same-origin");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
    }
    let front = browser.get("/ui/acme").await.text;
    for (path, expected) in [("style.css", "text/css"), ("script.js", "text/javascript")] {
        let address = format!("/ui/{path}?v={}", env!("CARGO_PKG_VERSION"));
        assert!(front.contains(&format!("=\"{address}\"")), "{front}");
        let file = browser.get(&address).await;
        let kind = file.headers["content-type"].to_str().unwrap();
        assert_eq!((file.status.as_u16(), kind), (200, format!("{expected}; charset=utf-8").as_str()));
    }
}

async fn unfinished_forms_do_not_block_pages(database: Database) {
    let service = TestService::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let host = service.host();
    let mut unfinished = Vec::new();
    for _ in 0..9 {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "POST /ui/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 9\r\n\r\nt"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        unfinished.push(stream);
    }
    assert_eq!(browser.get("/ui/acme").await.status, 200);
    drop(unfinished);
}

async fn sign_in_with_invalid_tokens_is_rate_limited(database: Database) {
    let limits = Limits { invalid_tokens: 3, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let mut browser = Browser::new(&service);
    eventually("rate limit", async || {
        let mut guess = Browser::new(&service);
        guess.sign_in("guessed-0123456789abcdef0123", "").await.status == 429
    })
    .await;
    let answer = browser.sign_in("another-0123456789abcdef0123", "").await;
    assert_eq!(answer.status, 429);
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

crate::service::on_both!(
    session_starts_with_a_token_and_ends_with_sign_out,
    session_ends_with_its_token_and_after_the_idle_timeout,
    session_reads_the_data_of_its_pages_and_writes_nothing,
    update_of_a_live_page_does_not_extend_the_session,
    environments_are_paginated,
    non_compliant_and_declared_environments_are_listed_first,
);

crate::service::on_sqlite!(
    session_requires_read_permission_and_is_limited_to_its_organization,
    cross_site_forms_and_open_redirects_are_rejected,
    sign_in_returns_to_the_requested_page_behind_a_proxy,
    pages_have_security_headers,
    unfinished_forms_do_not_block_pages,
    sign_in_with_invalid_tokens_is_rate_limited,
);
