//! A client for the pages with a session cookie.

use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, ORIGIN, SET_COOKIE};

use crate::service::support::test_service::{Options, client};
use crate::service::{READER, Response, TestService};

/// Keeps the cookies of a session and of a sign-in, and does not follow redirects.
pub struct Browser<'a> {
    service: &'a TestService,
    http: reqwest::Client,
    pub cookie: Option<String>,
    pub sign_in_cookie: Option<String>,
}

impl<'a> Browser<'a> {
    pub fn new(service: &'a TestService) -> Self {
        let http = client(&Options::default()).redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { service, http, cookie: None, sign_in_cookie: None }
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> Response {
        let cookies = self.cookie.iter().chain(&self.sign_in_cookie);
        let request = cookies.fold(request, |request, cookie| request.header(COOKIE, cookie));
        let response = Response::from_request(request).await;
        for set in response.headers.get_all(SET_COOKIE) {
            let set = set.to_str().unwrap();
            let (cookie, attributes) = set.split_once("; ").unwrap();
            assert!(attributes.starts_with("Path=/; HttpOnly; SameSite=Lax"), "{set}");
            let kept = (!attributes.contains("Max-Age=0")).then(|| cookie.to_owned());
            if cookie.contains("sign-in=") {
                assert!(attributes.contains("Max-Age=600"), "{set}");
                self.sign_in_cookie = kept;
            } else {
                self.cookie = kept;
            }
        }
        response
    }

    pub async fn get(&mut self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.service.base));
        self.send(request.header(ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8")).await
    }

    pub async fn post(&mut self, path: &str, origin: &str, form: &[(&str, &str)]) -> Response {
        let request = self.http.post(format!("{}{path}", self.service.base)).header(ORIGIN, origin);
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)).await
    }

    pub async fn sign_in(&mut self, token: &str, next: &str) -> Response {
        let origin = self.service.base.clone();
        self.post("/ui/sign-in", &origin, &[("token", token), ("next", next)]).await
    }

    pub async fn signed_in(service: &'a TestService, token: &str) -> Self {
        let mut browser = Self::new(service);
        assert_eq!(browser.sign_in(token, "").await.status, 303);
        browser
    }

    /// Text of an existing page, as the reader of `acme` sees it.
    pub async fn read_page(service: &'a TestService, path: &str) -> String {
        let response = Self::signed_in(service, READER).await.get(path).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.text
    }
}

/// Content of `<main>`: the page without the header, which depends on user and path.
pub fn main_element(response: &Response) -> String {
    let (_, main) = response.text.split_once("<main").unwrap();
    main.split_once("</main>").unwrap().0.to_owned()
}

#[track_caller]
pub fn assert_contains(page: &str, expected: &[&str]) {
    for expected in expected {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}
