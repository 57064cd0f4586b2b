//! Pages, as a browser gets them.

mod action;
mod artifact;
mod attestation;
mod compare;
mod environment;
mod inert;
mod search;
mod timeline;
mod trail;

use std::time::Duration;

use reqwest::header::LOCATION;
use supercargo::domain::evidence::session;
use supercargo::service::Policy;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::browser::Browser;
use super::running::{Options, bootstrap, eventually};
use super::{ADMIN, ATTESTER, Answer, Database, EXPIRED, READER, REPORTER, Running, STRANGER, pod, report};

fn leads_to(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.headers[LOCATION].to_str().unwrap()
}

async fn a_token_is_exchanged_for_a_session_that_ends_when_one_signs_out(database: Database) {
    let service = Running::start(database).await;
    service.report(REPORTER, "prod", report(&[pod("p", "image", 'a')])).await.expect(201);
    let mut browser = Browser::of(&service);
    // Who wants a page is asked to sign in, and comes back.
    let asked = browser.get("/ui/acme?at=x").await;
    assert_eq!(leads_to(&asked), "/ui/sign-in?next=%2Fui%2Facme%3Fat%3Dx");
    let form = browser.get("/ui/sign-in?next=%2Fui%2Facme%3Fat%3Dx").await;
    assert_eq!(form.status, 200);
    assert!(form.text.contains(r#"name="next" value="/ui/acme?at=x""#), "{}", form.text);
    // Links that sign in are the demo's alone.
    let form = browser.get("/ui/sign-in?once=0123456789abcdef0123456789abcdef").await;
    assert!(form.status == 200 && !form.text.contains("alert") && browser.cookie.is_none(), "{form:?}");
    assert_eq!(leads_to(&browser.sign_in(READER, "/ui/acme?at=x").await), "/ui/acme?at=x");
    let page = browser.get("/ui/acme").await;
    assert_eq!(page.status, 200);
    for expected in ["prod", "1 artifact in 1 pod", "1 event in the last day", "unknown", "reader"] {
        assert!(page.text.contains(expected), "{expected}: {}", page.text);
    }
    assert_eq!(leads_to(&browser.get("/ui").await), "/ui/acme");
    let cookie = browser.cookie.clone();
    let origin = service.base.clone();
    assert_eq!(leads_to(&browser.post("/ui/sign-out", &origin, &[]).await), "/ui/sign-in");
    assert_eq!(browser.cookie, None);
    // The cookie by itself is worth nothing any more.
    browser.cookie = cookie;
    assert!(leads_to(&browser.get("/ui/acme").await).starts_with("/ui/sign-in"));
    assert_eq!(service.database.rows("SELECT sha256 FROM sessions").await.len(), 0);
}

async fn who_may_not_read_gets_no_session_and_what_is_another_s_is_not_there(database: Database) {
    let service = Running::start(database).await;
    for token in [REPORTER, ATTESTER, EXPIRED, "guessed-0123456789abcdef0123", ""] {
        let mut browser = Browser::of(&service);
        let answer = browser.sign_in(token, "").await;
        assert_eq!(answer.status, 403, "{token}");
        assert!(answer.text.contains("No valid token of role read or admin"), "{}", answer.text);
        assert!(token.is_empty() || !answer.text.contains(token));
        assert_eq!(browser.cookie, None);
    }
    let mut browser = Browser::signed_in(&service, STRANGER).await;
    assert_eq!(browser.get("/ui/stranger").await.status, 200);
    for path in ["/ui/acme", "/ui/nobody", "/ui/stranger/environments/prod"] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text.contains("nothing that you may see"), "{}", answer.text);
    }
}

async fn another_site_s_form_is_refused_and_nobody_is_led_elsewhere(database: Database) {
    let service = Running::start(database).await;
    let mut browser = Browser::of(&service);
    for origin in ["https://evil.example.com", "null", "http://127.0.0.1:1", ""] {
        let answer = browser.post("/ui/sign-in", origin, &[("token", READER)]).await;
        assert_eq!(answer.status, 403, "{origin}");
        assert!(answer.text.contains("did not come from a page of this service"), "{}", answer.text);
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
        assert_eq!(leads_to(&browser.sign_in(READER, next).await), "/ui/acme", "{next}");
    }
    assert_eq!(leads_to(&browser.sign_in(READER, "/ui/\u{1}\u{e9}?q=\u{7f}").await), "/ui/%01%C3%A9?q=%7F");
    let cookie = browser.cookie.clone();
    assert_eq!(browser.post("/ui/sign-out", "https://evil.example.com", &[]).await.status, 403);
    assert_eq!((browser.get("/ui/acme").await.status.as_u16(), &browser.cookie), (200, &cookie));
}

async fn who_signs_in_gets_what_they_wanted_behind_a_proxy_too(database: Database) {
    let options = Options { public_url: Some("http://evidence.example.com/base/"), ..Options::default() };
    let service = Running::start_with(database, options).await;
    let mut browser = Browser::of(&service);
    let sent = leads_to(&browser.get("/ui/acme/search?q=a%26b").await).to_owned();
    let (form, next) = sent.split_once("?next=").unwrap();
    assert_eq!(form, "/base/ui/sign-in");
    let next = url::form_urlencoded::parse(format!("next={next}").as_bytes()).next().unwrap().1.into_owned();
    assert_eq!(next, "/base/ui/acme/search?q=a%26b");
    assert_eq!(leads_to(&browser.sign_in(READER, &next).await), next);
}

async fn a_session_ends_with_its_token_and_when_nobody_uses_it(database: Database) {
    let session = session::Policy { idle: Duration::from_millis(1), ..session::Policy::default() };
    let impatient = Policy { wrong_tokens: u32::MAX, session, ..Policy::default() };
    let service = Running::start_with(database, Options { policy: impatient, ..Options::default() }).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let path = "/ui/acme";
    let sent_away = async |browser: &mut Browser<'_>| browser.get(path).await.status == 303;
    while !sent_away(&mut browser).await {
        tokio::task::yield_now().await;
    }
    let database = service.stop().await;

    let service = Running::start(database).await;
    let mut browser = Browser::signed_in(&service, ADMIN).await;
    assert_eq!(browser.get(path).await.status, 200);
    let without =
        bootstrap(2, "").replace(&format!("      - {{name: admin, role: admin, file: {ADMIN}}}\n"), "");
    service.reload(&without).await;
    assert!(sent_away(&mut browser).await);
    service.reload(&bootstrap(3, "")).await;
    assert!(sent_away(&mut browser).await, "a token that comes again brings no session back");
}

async fn of_many_environments_some_are_on_a_page(database: Database) {
    let names: Vec<_> = (0..450).map(|n| format!("{{name: e-{n:03}}}")).collect();
    let options = Options {
        bootstrap: bootstrap(1, &format!("    environments: [{}]", names.join(", "))),
        ..Options::default()
    };
    let service = Running::start_with(database, options).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    for (query, expected) in
        [("", 0..200), ("?page=2", 200..400), ("?page=3", 400..450), ("?page=4", 400..450)]
    {
        let page = browser.get(&format!("/ui/acme{query}")).await.text;
        let shown: Vec<_> = (0..450).filter(|n| page.contains(&format!("environments/e-{n:03}\""))).collect();
        assert_eq!(shown, expected.collect::<Vec<_>>(), "{query}");
    }
    let page = browser.get("/ui/acme?page=2").await.text;
    for way in ["/ui/acme?page=1", "/ui/acme?page=3"] {
        assert!(page.contains(&format!("href=\"{way}\"")), "{page}");
    }
    assert_eq!(browser.get("/ui/acme?page=0").await.status, 400);
}

async fn browsers_are_told_to_run_nothing(database: Database) {
    let options =
        Options { bootstrap: bootstrap(1, "    environments: [{name: prod}]"), ..Options::default() };
    let service = Running::start_with(database, options).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let page = browser.get("/ui/acme").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("never"), "{}", page.text);
    for answer in [page, browser.get("/ui/nothing/there").await, Browser::of(&service).get("/ui/acme").await]
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

async fn who_sends_a_form_without_end_keeps_nobody_from_pages(database: Database) {
    let service = Running::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let host = service.host();
    let mut endless = Vec::new();
    for _ in 0..9 {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "POST /ui/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 9\r\n\r\nt"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        endless.push(stream);
    }
    assert_eq!(browser.get("/ui/acme").await.status, 200);
    drop(endless);
}

async fn many_wrong_tokens_wait_here_too(database: Database) {
    let policy = Policy { wrong_tokens: 3, ..Policy::default() };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    let mut browser = Browser::of(&service);
    eventually("it has to wait", async || {
        let mut guess = Browser::of(&service);
        guess.sign_in("guessed-0123456789abcdef0123", "").await.status == 429
    })
    .await;
    let answer = browser.sign_in("another-0123456789abcdef0123", "").await;
    assert_eq!(answer.status, 429);
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

super::on_both!(
    a_token_is_exchanged_for_a_session_that_ends_when_one_signs_out,
    a_session_ends_with_its_token_and_when_nobody_uses_it,
    of_many_environments_some_are_on_a_page,
);

super::on_sqlite!(
    who_may_not_read_gets_no_session_and_what_is_another_s_is_not_there,
    another_site_s_form_is_refused_and_nobody_is_led_elsewhere,
    who_signs_in_gets_what_they_wanted_behind_a_proxy_too,
    browsers_are_told_to_run_nothing,
    who_sends_a_form_without_end_keeps_nobody_from_pages,
    many_wrong_tokens_wait_here_too,
);
