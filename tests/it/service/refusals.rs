//! What cannot be shown is said by a page, and what somebody may not see is not there.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, LOCATION, ORIGIN};
use serde_json::json;
use supercargo::service::{Pace, Policy};

use super::browser::{Browser, said};
use super::hostile::raw;
use super::running::{Options, bootstrap};
use super::{
    ADMIN, ATTESTER, Answer, Database, READER, REPORTER, Running, STRANGER, digest, form, pod, report,
};

/// It is a page that says why, as every page does.
#[track_caller]
fn refuses(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.headers[CONTENT_TYPE], "text/html; charset=utf-8", "{answer:?}");
    assert!(answer.text.starts_with("<!DOCTYPE html>") && answer.text.contains("<h1>"), "{answer:?}");
    assert!(answer.text.contains(words), "{answer:?}");
    assert!(answer.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none';"));
    assert_eq!(answer.headers["x-frame-options"], "DENY");
}

async fn whatever_refuses_a_page_does_so_by_a_page(database: Database) {
    let service = Running::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let long = "x".repeat(3_000);
    for (path, status, words) in [
        ("/ui/%ff", 400, "not UTF-8"),
        ("/ui/acme/environments/%ff", 400, "not UTF-8"),
        ("/ui/acme/flows/cart/trails/%C3%28", 400, "not UTF-8"),
        ("/ui/acme/environments/a%00b", 404, "nothing that you may see"),
        ("/ui/acme/flows/%00/trails/t", 404, "nothing that you may see"),
        ("/ui/acme/environments/%zz", 404, "nothing that you may see"),
        (&format!("/ui/acme/environments/{long}"), 404, "nothing that you may see"),
        (&format!("/ui/acme/artifacts/{long}"), 404, "nothing that you may see"),
        (&format!("/ui/acme/flows/{long}/trails/{long}"), 404, "nothing that you may see"),
        (&format!("/ui/acme/actions/{long}"), 404, "nothing that you may see"),
        ("/ui/acme/environments", 404, "nothing that you may see"),
        ("/ui/acme/a/b/c/d/e", 404, "nothing that you may see"),
        ("/ui//", 404, "nothing that you may see"),
        ("/ui/acme/search?q=a&q=b", 400, "twice"),
        ("/ui/acme/search?x=1", 400, "no such parameter"),
        ("/ui/sign-in?next=a&next=b", 400, "twice"),
    ] {
        refuses(&browser.get(path).await, status, words);
    }
    let request = async |method: Method, path: &str| {
        Answer::of(service.http.request(method, format!("{}{path}", service.base))).await
    };
    for (method, path, allowed) in [
        (Method::POST, "/ui", "GET,HEAD"),
        (Method::POST, "/ui/acme", "GET,HEAD"),
        (Method::DELETE, "/ui/acme/actions/1", "GET,HEAD"),
        (Method::GET, "/ui/sign-out", "POST"),
        (Method::PUT, "/ui/sign-in", "GET,HEAD,POST"),
        (Method::from_bytes(b"BREW").unwrap(), "/ui/style.css", "GET,HEAD"),
    ] {
        let answer = request(method, path).await;
        refuses(&answer, 405, "does not take this method");
        assert_eq!(answer.headers["allow"], allowed, "{path}");
    }
    // What lies elsewhere answers as before, also where its name begins alike.
    for path in ["/", "/uix", "/ui.html", "/api/v2/ui/"] {
        let answer = request(Method::GET, path).await.expect(404);
        assert!(answer.headers.get("x-frame-options").is_none(), "{answer:?}");
    }
}

async fn who_is_refused_something_stays_signed_in_and_finds_back(database: Database) {
    let service = Running::start(database).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    let back = "href=\"/ui/acme/environments/prod\">To this page, with nothing asked of it<";
    for (path, status, leads_back) in [
        ("/ui/acme/environments/prod?at=yesterday", 400, true),
        ("/ui/acme/environments/nowhere", 404, false),
        ("/ui/acme/nothing/here", 404, false),
        ("/ui/stranger", 404, false),
    ] {
        let answer = browser.get(path).await;
        for words in ["role=\"search\"", ">Sign out<", ">Environments<"] {
            refuses(&answer, status, words);
        }
        assert_eq!(answer.text.contains(back), leads_back, "{path}: {}", answer.text);
        let stranger = Browser::of(&service).get(path).await;
        assert!(!stranger.text.contains("Sign out"), "{path}: {}", stranger.text);
    }
}

async fn a_form_is_no_larger_and_no_slower_than_it_has_to_be(database: Database) {
    let pace = Pace { grace: Duration::from_millis(100), bytes_per_second: 1024 * 1024 };
    let policy = Policy { pace, ..Policy::default() };
    let service = Running::start_with(database, Options { policy, ..Options::default() }).await;
    let large = "x".repeat(17 * 1024);
    let answer = Browser::of(&service).sign_in(&large, "").await;
    refuses(&answer, 413, "at most 16384 bytes");
    let host = service.host();
    let head = format!(
        "POST /ui/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: {}\r\nConnection: close\r\n",
        service.base
    );
    // However large it turns out to be.
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let answer =
        raw(&service.base, format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("<!DOCTYPE html>"), "{answer}");
    // One that is announced, and never comes.
    let answer = raw(&service.base, format!("{head}Content-Length: 100\r\n\r\ntoken=").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("came too slowly"), "{answer}");
    // One without a token has none that is valid, and what is not known in it is passed over.
    let mut browser = Browser::of(&service);
    let origin = service.base.clone();
    refuses(&browser.post("/ui/sign-in", &origin, &[]).await, 403, "No valid token");
    let sent = [("other", "x"), ("token", READER)];
    assert_eq!(browser.post("/ui/sign-in", &origin, &sent).await.status, 303);
    let json =
        service.http.post(format!("{origin}/ui/sign-in")).header(ORIGIN, &origin).body("{\"token\":\"x\"}");
    refuses(&Answer::of(json).await, 403, "No valid token");
}

/// A page of each kind, all of which are there.
fn pages() -> Vec<String> {
    let artifact = format!("/ui/acme/artifacts/{}", digest('a'));
    let mut pages = vec![artifact];
    for page in ["", "/environments/prod", "/flows/cart/trails/t", "/actions", "/actions/1", "/search?q=cart"]
    {
        pages.push(format!("/ui/acme{page}"));
    }
    pages
}

const ACTION: &str = "    actions:
      - {number: 1, name: ops, environments: [prod], triggers: [ON_STARTED_ARTIFACT],
         targets: [{name: pager, type: WEBHOOK, url: {file: url}, secrets: [{file: secret}]}]}";

async fn filled(database: Database, bootstrap: String) -> Running {
    let files = vec![
        ("url", "https://127.0.0.1:1/".to_owned()),
        ("secret", "whsec-0123456789abcdef012345".to_owned()),
    ];
    let service = Running::start_with(database, Options { bootstrap, files, ..Options::default() }).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a')});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service
}

/// Who is not signed in is asked to be, and nothing else is said.
async fn is_asked_to_sign_in(browser: &mut Browser<'_>, path: &str) {
    let answer = browser.get(path).await;
    assert_eq!(answer.status, 303, "{path}: {answer:?}");
    assert!(answer.headers[LOCATION].to_str().unwrap().starts_with("/ui/sign-in?next="), "{path}");
    assert_eq!(answer.text, "", "{path}");
}

async fn what_somebody_may_not_see_is_not_there(database: Database) {
    let service = filled(database, bootstrap(1, ACTION)).await;
    let mut reader = Browser::signed_in(&service, READER).await;
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    for path in pages() {
        assert_eq!(reader.get(&path).await.status, 200, "{path}");
        refuses(&stranger.get(&path).await, 404, "nothing that you may see");
        // Not by the name of the own organization either, but for what every one has.
        let own = stranger.get(&path.replace("acme", "stranger")).await;
        let is_everywhere =
            ["/ui/acme", "/ui/acme/actions", "/ui/acme/search?q=cart"].contains(&path.as_str());
        assert_eq!(own.status, if is_everywhere { 200 } else { 404 }, "{path}");
        assert!(!said(&own).contains("cart:1") && !said(&own).contains(&digest('a')), "{}", own.text);
        // The same, whether there is such an organization or not.
        let nobody = stranger.get(&path.replace("acme", "nobody")).await;
        let same = stranger.get(&path).await;
        assert_eq!(said(&nobody), said(&same), "{path}");
        is_asked_to_sign_in(&mut Browser::of(&service), &path).await;
        for token in [REPORTER, ATTESTER] {
            let mut browser = Browser::of(&service);
            assert_eq!(browser.sign_in(token, &path).await.status, 403);
            is_asked_to_sign_in(&mut browser, &path).await;
            // A token is no session, wherever it is put.
            for cookie in [format!("supercargo={token}"), "supercargo=".to_owned()] {
                browser.cookie = Some(cookie);
                is_asked_to_sign_in(&mut browser, &path).await;
            }
        }
        let bearer = service.http.get(format!("{}{path}", service.base)).bearer_auth(READER);
        assert!(Answer::of(bearer).await.text.contains("<h1>Sign in</h1>"), "{path}");
    }
}

async fn a_session_sees_nothing_once_its_token_or_organization_is_gone(database: Database) {
    // With the token's end, which comes an hour sooner than the file says.
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let expiring = bootstrap(1, ACTION).replace(
        &format!("role: read, file: {READER}"),
        &format!("role: read, file: {READER}, expires: \"{end}\""),
    );
    let service = filled(database, expiring).await;
    let mut admin = Browser::signed_in(&service, ADMIN).await;
    let mut reader = Browser::signed_in(&service, READER).await;
    assert_eq!(reader.get("/ui/acme").await.status, 200);
    service.database.execute("UPDATE tokens SET expires_at = expires_at - 3600000000").await;
    for path in pages() {
        is_asked_to_sign_in(&mut reader, &path).await;
        assert_eq!(admin.get(&path).await.status, 200, "{path}");
    }
    // With the organization, which is taken out of the file.
    let mut stranger = Browser::signed_in(&service, STRANGER).await;
    let whole = bootstrap(2, "");
    let (_, rest) = whole.split_once("  - name: stranger").unwrap();
    service.reload(&format!("generation: 2\norganizations:\n  - name: stranger{rest}")).await;
    for path in pages() {
        is_asked_to_sign_in(&mut admin, &path).await;
        refuses(&stranger.get(&path).await, 404, "nothing that you may see");
    }
    assert_eq!(Browser::of(&service).sign_in(ADMIN, "").await.status, 403);
}

super::on_sqlite!(
    whatever_refuses_a_page_does_so_by_a_page,
    who_is_refused_something_stays_signed_in_and_finds_back,
    a_form_is_no_larger_and_no_slower_than_it_has_to_be,
    what_somebody_may_not_see_is_not_there,
    a_session_sees_nothing_once_its_token_or_organization_is_gone,
);
