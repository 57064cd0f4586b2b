//! Error pages, and pages that a user may not see.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, LOCATION, ORIGIN};
use serde_json::json;
use service::{Limits, Pace};

use crate::service::http::hostile_input::raw;
use crate::service::report;
use crate::service::support::browser::{Browser, main_element};
use crate::service::support::test_service::{Options, bootstrap};
use crate::service::{
    ADMIN, ATTESTER, Database, READER, REPORTER, Response, STRANGER, TestService, digest, form, pod,
};

/// Expects an HTML page with this status and text, and the security headers of every page.
#[track_caller]
fn assert_error_page(response: &Response, status: u16, text: &str) {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.headers[CONTENT_TYPE], "text/html; charset=utf-8", "{response:?}");
    assert!(response.text.starts_with("<!DOCTYPE html>") && response.text.contains("<h1>"), "{response:?}");
    assert!(response.text.contains(text), "{response:?}");
    assert!(response.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none';"));
    assert_eq!(response.headers["x-frame-options"], "DENY");
}

async fn every_page_error_is_an_html_page(database: Database) {
    let service = TestService::start(database).await;
    let mut browser = Browser::signed_in(&service, READER).await;
    let long = "x".repeat(3_000);
    for (path, status, text) in [
        ("/ui/%ff", 400, "not UTF-8"),
        ("/ui/acme/environments/%ff", 400, "not UTF-8"),
        ("/ui/acme/flows/cart/trails/%C3%28", 400, "not UTF-8"),
        ("/ui/acme/environments/a%00b", 404, "you do not have access to it"),
        ("/ui/acme/flows/%00/trails/t", 404, "you do not have access to it"),
        ("/ui/acme/environments/%zz", 404, "you do not have access to it"),
        (&format!("/ui/acme/environments/{long}"), 404, "you do not have access to it"),
        (&format!("/ui/acme/artifacts/{long}"), 404, "you do not have access to it"),
        (&format!("/ui/acme/flows/{long}/trails/{long}"), 404, "you do not have access to it"),
        (&format!("/ui/acme/actions/{long}"), 404, "you do not have access to it"),
        ("/ui/acme/environments", 404, "you do not have access to it"),
        ("/ui/acme/a/b/c/d/e", 404, "you do not have access to it"),
        ("/ui//", 404, "you do not have access to it"),
        ("/ui/acme/search?q=a&q=b", 400, "twice"),
        ("/ui/acme/search?x=1", 400, "unknown parameter"),
        ("/ui/sign-in?next=a&next=b", 400, "twice"),
    ] {
        assert_error_page(&browser.get(path).await, status, text);
    }
    let request = async |method: Method, path: &str| {
        Response::from_request(service.http.request(method, format!("{}{path}", service.base))).await
    };
    for (method, path, allowed) in [
        (Method::POST, "/ui", "GET,HEAD"),
        (Method::POST, "/ui/acme", "GET,HEAD"),
        (Method::DELETE, "/ui/acme/actions/1", "GET,HEAD"),
        (Method::GET, "/ui/sign-out", "POST"),
        (Method::PUT, "/ui/sign-in", "GET,HEAD,POST"),
        (Method::from_bytes(b"BREW").unwrap(), "/ui/style.css", "GET,HEAD"),
    ] {
        let response = request(method, path).await;
        assert_error_page(&response, 405, "method not allowed");
        assert_eq!(response.headers["allow"], allowed, "{path}");
    }
    // Paths outside `/ui` get no error page, even with a similar prefix.
    for path in ["/", "/uix", "/ui.html", "/api/v2/ui/"] {
        let response = request(Method::GET, path).await.expect(404);
        assert!(response.headers.get("x-frame-options").is_none(), "{response:?}");
    }
}

async fn error_page_keeps_the_session_and_links_back(database: Database) {
    let service = TestService::start(database).await;
    service.report(REPORTER, "prod", report(&[])).await.expect(201);
    let mut browser = Browser::signed_in(&service, READER).await;
    let back = "href=\"/ui/acme/environments/prod\">Open this page without parameters<";
    for (path, status, leads_back) in [
        ("/ui/acme/environments/prod?at=yesterday", 400, true),
        ("/ui/acme/environments/nowhere", 404, false),
        ("/ui/acme/nothing/here", 404, false),
        ("/ui/stranger", 404, false),
    ] {
        let response = browser.get(path).await;
        for text in ["role=\"search\"", ">Sign out<", ">Environments<"] {
            assert_error_page(&response, status, text);
        }
        assert_eq!(response.text.contains(back), leads_back, "{path}: {}", response.text);
        let other = Browser::new(&service).get(path).await;
        assert!(!other.text.contains("Sign out"), "{path}: {}", other.text);
    }
}

async fn oversized_or_slow_form_is_rejected(database: Database) {
    let pace = Pace { grace: Duration::from_millis(100), bytes_per_second: 1024 * 1024 };
    let limits = Limits { pace, ..Limits::default() };
    let service = TestService::start_with(database, Options { limits, ..Options::default() }).await;
    let large = "x".repeat(17 * 1024);
    let response = Browser::new(&service).sign_in(&large, "").await;
    assert_error_page(&response, 413, "at most 16384 bytes");
    let host = service.host();
    let head = format!(
        "POST /ui/sign-in HTTP/1.1\r\nHost: {host}\r\nOrigin: {}\r\nConnection: close\r\n",
        service.base
    );
    // Without Content-Length, the limit applies while the body is read.
    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let response =
        raw(&service.base, format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}").as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 413") && response.contains("<!DOCTYPE html>"), "{response}");
    // An announced body that is never sent times out.
    let response = raw(&service.base, format!("{head}Content-Length: 100\r\n\r\ntoken=").as_bytes()).await;
    assert!(
        response.starts_with("HTTP/1.1 408") && response.contains("the body was received too slowly"),
        "{response}"
    );
    // A form without a token is rejected; unknown fields are ignored.
    let mut browser = Browser::new(&service);
    let origin = service.base.clone();
    assert_error_page(&browser.post("/ui/sign-in", &origin, &[]).await, 403, "Invalid token");
    let sent = [("other", "x"), ("token", READER)];
    assert_eq!(browser.post("/ui/sign-in", &origin, &sent).await.status, 303);
    let json =
        service.http.post(format!("{origin}/ui/sign-in")).header(ORIGIN, &origin).body("{\"token\":\"x\"}");
    assert_error_page(&Response::from_request(json).await, 403, "Invalid token");
}

/// One existing page of each kind.
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

async fn with_evidence(database: Database, bootstrap: String) -> TestService {
    let files = vec![
        ("url", "https://127.0.0.1:1/".to_owned()),
        ("secret", "whsec-0123456789abcdef012345".to_owned()),
    ];
    let service = TestService::start_with(database, Options { bootstrap, files, ..Options::default() }).await;
    service.report(REPORTER, "prod", report(&[pod("p", "cart:1", 'a')])).await.expect(201);
    let data = json!({"attestation_name": "unit", "junit_results": [], "artifact_fingerprint": digest('a')});
    service.attest(ADMIN, "cart", "t", form(&data)).await.expect(201);
    service
}

/// Expects a redirect to the sign-in page without content.
async fn assert_sign_in_redirect(browser: &mut Browser<'_>, path: &str) {
    // The redirect deletes the cookie.
    let cookie = browser.cookie.clone();
    let response = browser.get(path).await;
    browser.cookie = cookie;
    assert_eq!(response.status, 303, "{path}: {response:?}");
    assert!(response.headers[LOCATION].to_str().unwrap().starts_with("/ui/sign-in?next="), "{path}");
    assert_eq!(response.text, "", "{path}");
}

async fn pages_of_another_organization_get_404(database: Database) {
    let service = with_evidence(database, bootstrap(1, ACTION)).await;
    let mut reader = Browser::signed_in(&service, READER).await;
    let mut other = Browser::signed_in(&service, STRANGER).await;
    for path in pages() {
        assert_eq!(reader.get(&path).await.status, 200, "{path}");
        assert_error_page(&other.get(&path).await, 404, "you do not have access to it");
        // Below the own organization, only pages exist that every organization has.
        let own = other.get(&path.replace("acme", "stranger")).await;
        let is_common = ["/ui/acme", "/ui/acme/actions", "/ui/acme/search?q=cart"].contains(&path.as_str());
        assert_eq!(own.status, if is_common { 200 } else { 404 }, "{path}");
        assert!(
            !main_element(&own).contains("cart:1") && !main_element(&own).contains(&digest('a')),
            "{}",
            own.text
        );
        // The response does not depend on whether the organization exists.
        let unknown = other.get(&path.replace("acme", "nobody")).await;
        let same = other.get(&path).await;
        assert_eq!(main_element(&unknown), main_element(&same), "{path}");
        assert_sign_in_redirect(&mut Browser::new(&service), &path).await;
        for token in [REPORTER, ATTESTER] {
            let mut browser = Browser::new(&service);
            assert_eq!(browser.sign_in(token, &path).await.status, 403);
            assert_sign_in_redirect(&mut browser, &path).await;
            // A token in the cookie is no session.
            for cookie in [format!("supercargo={token}"), "supercargo=".to_owned()] {
                browser.cookie = Some(cookie);
                assert_sign_in_redirect(&mut browser, &path).await;
            }
        }
        let bearer = service.http.get(format!("{}{path}", service.base)).bearer_auth(READER);
        assert!(Response::from_request(bearer).await.text.contains("<h1>Sign in</h1>"), "{path}");
    }
}

async fn session_ends_with_its_token_or_organization(database: Database) {
    // The token expires: the test moves the time back by an hour.
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let expiring = bootstrap(1, ACTION).replace(
        &format!("role: read, file: {READER}"),
        &format!("role: read, file: {READER}, expires: \"{end}\""),
    );
    let service = with_evidence(database, expiring).await;
    let mut admin = Browser::signed_in(&service, ADMIN).await;
    let mut reader = Browser::signed_in(&service, READER).await;
    assert_eq!(reader.get("/ui/acme").await.status, 200);
    service.database.execute("UPDATE tokens SET expires_at = expires_at - 3600000000").await;
    for path in pages() {
        assert_sign_in_redirect(&mut reader, &path).await;
        assert_eq!(admin.get(&path).await.status, 200, "{path}");
    }
    // The organization is removed from the file.
    let mut other = Browser::signed_in(&service, STRANGER).await;
    let complete = bootstrap(2, "");
    let (_, rest) = complete.split_once("  - name: stranger").unwrap();
    service.reload(&format!("generation: 2\norganizations:\n  - name: stranger{rest}")).await;
    for path in pages() {
        assert_sign_in_redirect(&mut admin, &path).await;
        assert_error_page(&other.get(&path).await, 404, "you do not have access to it");
    }
    assert_eq!(Browser::new(&service).sign_in(ADMIN, "").await.status, 403);
}

crate::service::on_sqlite!(
    every_page_error_is_an_html_page,
    error_page_keeps_the_session_and_links_back,
    oversized_or_slow_form_is_rejected,
    pages_of_another_organization_get_404,
    session_ends_with_its_token_or_organization,
);
