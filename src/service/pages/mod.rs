//! What people look at: pages below `/ui/`, made from what the store holds.
//!
//! The router of `serve` takes them in. A page admits its visitor by the session that a token was exchanged
//! for, reads, and shows; the only things that are written here are sessions. Nothing is loaded from
//! elsewhere, and every page works without a script. What a visitor may not see is not there: 404.

mod actions;
mod artifact;
mod attestation;
mod compare;
mod environment;
mod organization;
mod parts;
mod pure;
mod search;
mod session;
mod sign_in;
mod timeline;
mod trail;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use self::parts::refusal::Refusal;
use self::session::{Browser, Looking};
use super::app::App;
use super::http::problem::Problem;
pub(super) use crate::service::invitation::Invitation;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// How many pages of what an organization has are made at the same time. Each holds a connection that those who
/// report read with as well, and as much memory as what runs takes: a crowd of readers waits for itself, and nobody
/// else for it.
pub(super) const AT_ONCE: usize = 3;

/// How many of them are for one token, and for one organization: others look as well.
pub(super) const AT_ONCE_BY_ONE: u32 = 2;

/// What lies where an organization's page would: none may be called so.
pub(super) const TAKEN: [&str; 4] = ["sign-in", "sign-out", "style.css", "script.js"];

/// The pages. All lie below `/ui`, so that no organization's name collides with the API.
pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/ui", get(sign_in::home))
        .route("/ui/", get(sign_in::home))
        .route("/ui/style.css", get(async || file("text/css; charset=utf-8", STYLE)))
        .route("/ui/script.js", get(async || file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/ui/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/ui/sign-out", post(sign_in::sign_out))
        .route("/ui/{organization}", get(organization::page))
        .route("/ui/{organization}/environments/{environment}", get(environment::page))
        .route("/ui/{organization}/environments/{environment}/timeline", get(timeline::page))
        .route("/ui/{organization}/environments/{environment}/compare", get(compare::page))
        .route("/ui/{organization}/artifacts/{fingerprint}", get(artifact::page))
        .route("/ui/{organization}/flows/{flow}/trails/{trail}", get(trail::page))
        .route(
            "/ui/{organization}/flows/{flow}/trails/{trail}/attestations/{attestation}",
            get(attestation::page),
        )
        .route("/ui/{organization}/actions", get(actions::list))
        .route("/ui/{organization}/actions/{number}", get(actions::page))
        .route("/ui/{organization}/search", get(search::page))
        .route("/ui/{organization}/{*anything}", get(async |_: Browser| Refusal::NotFound))
}

/// What browsers are told of every page: nothing runs in it and nothing is loaded but files of ours, nobody frames it,
/// nobody learns where a link in it was followed from, and no cache keeps it. Whatever refuses a request below
/// `/ui`, our code or the framework, does so by a page. What lies elsewhere passes as it is.
pub(super) async fn guarded(State(app): State<App>, mut request: Request, next: Next) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                          form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let path = request.uri().path();
    if path != "/ui" && !path.starts_with("/ui/") {
        return next.run(request).await;
    }
    // No name holds a NUL, and PostgreSQL takes none.
    let is_possible = !path.contains("%00");
    let looking = Looking::default();
    request.extensions_mut().insert(Looking::clone(&looking));
    let mut response = if is_possible { next.run(request).await } else { Refusal::NotFound.into_response() };
    if let Some(refusal) = refusal(&mut response) {
        let mut page = refusal.shown(&app, looking.get());
        // What else was said stays: which methods there are, or when it is worth another try.
        for (name, value) in response.headers() {
            if ![CONTENT_TYPE, CONTENT_LENGTH].contains(name) {
                page.headers_mut().insert(name, value.clone());
            }
        }
        response = page;
    }
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_FRAME_OPTIONS, "DENY");
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Not "no-referrer": with that, browsers say "null" for where a form comes from (Fetch Standard, section 3.2).
    set(REFERRER_POLICY, "same-origin");
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Why an answer that is no page refuses what was asked for.
fn refusal(response: &mut Response) -> Option<Refusal> {
    if let Some(refusal) = response.extensions_mut().remove() {
        return Some(refusal);
    }
    if response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/html; charset=utf-8") {
        return None;
    }
    let status = response.status();
    if status == StatusCode::NOT_FOUND {
        return Some(Refusal::NotFound);
    }
    if let Some(problem) = response.extensions_mut().remove() {
        return Some(Refusal::Problem(problem));
    }
    let is_refused = status.is_client_error() || status.is_server_error();
    is_refused.then(|| Refusal::Problem(Problem::unreadable(status)))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "max-age=3600")], text).into_response()
}
