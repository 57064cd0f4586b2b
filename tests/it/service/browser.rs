//! A browser that is signed in, and looks at pages.

use reqwest::header::{CONTENT_TYPE, COOKIE, ORIGIN, SET_COOKIE};

use super::running::{Options, client};
use super::{Answer, READER, Running};

/// A browser with one cookie, which follows no redirect by itself.
pub struct Browser<'a> {
    service: &'a Running,
    http: reqwest::Client,
    pub cookie: Option<String>,
}

impl<'a> Browser<'a> {
    pub fn of(service: &'a Running) -> Self {
        let http = client(&Options::default()).redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { service, http, cookie: None }
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> Answer {
        let request = match &self.cookie {
            Some(cookie) => request.header(COOKIE, cookie),
            None => request,
        };
        let answer = Answer::of(request).await;
        if let Some(set) = answer.headers.get(SET_COOKIE) {
            let set = set.to_str().unwrap();
            let (cookie, how) = set.split_once("; ").unwrap();
            assert!(how.starts_with("Path=/; HttpOnly; SameSite=Lax"), "{set}");
            self.cookie = (!how.contains("Max-Age=0")).then(|| cookie.to_owned());
        }
        answer
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.service.base))).await
    }

    pub async fn post(&mut self, path: &str, origin: &str, form: &[(&str, &str)]) -> Answer {
        let request = self.http.post(format!("{}{path}", self.service.base)).header(ORIGIN, origin);
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)).await
    }

    pub async fn sign_in(&mut self, token: &str, next: &str) -> Answer {
        let origin = self.service.base.clone();
        self.post("/ui/sign-in", &origin, &[("token", token), ("next", next)]).await
    }

    /// Signs in, and is taken to a page.
    pub async fn signed_in(service: &'a Running, token: &str) -> Self {
        let mut browser = Self::of(service);
        assert_eq!(browser.sign_in(token, "").await.status, 303);
        browser
    }

    /// Looks at a page that is there, as the reader of `acme`.
    pub async fn looks(service: &'a Running, path: &str) -> String {
        let answer = Self::signed_in(service, READER).await.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.text
    }
}

/// What a page says. Around it stand who looks at it, and what they asked for.
pub fn said(answer: &Answer) -> String {
    let (_, main) = answer.text.split_once("<main").unwrap();
    main.split_once("</main>").unwrap().0.to_owned()
}

/// Everything of these is on the page.
#[track_caller]
pub fn shows(page: &str, expected: &[&str]) {
    for expected in expected {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}
