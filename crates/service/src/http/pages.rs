//! HTML pages below `/ui/`, rendered from the store.
//!
//! A page requires a session, which the user opened with a token or at an identity provider. Pages write nothing except
//! sessions and approvals, load nothing from other hosts, and work without scripts. Data that the user may not see returns
//! 404, like data that does not exist.
//!
//! Untrusted text is rendered with `parts::escape::text`, and an external address with `parts::escape::link`. A page
//! reads all data in one transaction, of the replica if there is one; unbounded lists are cut or paginated, and the
//! page says so.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::app::App;
use crate::http::context::RequestContext;
use crate::http::problem::{Problem, panicked};
use crate::http::response::limit_memory;
use crate::layout::parts::refusal::Refusal;
use crate::layout::session::Browser;
use crate::resources::{
    access_review, actions, artifacts, attestations, audit, environments, organization, packages, policies,
    search, sessions, trails,
};
use crate::site::Site;

const STYLE: &str = include_str!("../layout/style.css");
const SCRIPT: &str = include_str!("../layout/script.js");

const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                              connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Paths below `/ui/` that cannot be names of organizations.
pub(crate) const RESERVED_NAMES: [&str; 4] = ["sign-in", "sign-out", "style.css", "script.js"];

/// The routes of all pages, with their middleware. By its headers, browsers run and load only files of this service, no
/// site can frame a page, no link reveals its page, and no cache keeps it.
pub(crate) fn router(app: &App) -> Router<App> {
    let header = |name, value| SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value));
    let pages = Router::new()
        .route("/", get(sessions::sign_in::home))
        .route("/style.css", get(async || file("text/css; charset=utf-8", STYLE)))
        .route("/script.js", get(async || file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/sign-in", get(sessions::sign_in::form).post(sessions::sign_in::sign_in))
        .route("/sign-in/provider", get(sessions::provider::start))
        .route("/sign-in/callback/{organization}/{issuer}", get(sessions::provider::callback))
        .route("/sign-out", post(sessions::sign_in::sign_out))
        .route("/{organization}", get(organization::page::page))
        .route("/{organization}/environments/{environment}", get(environments::pages::environment::page))
        .route(
            "/{organization}/environments/{environment}/timeline",
            get(environments::pages::timeline::page),
        )
        .route("/{organization}/environments/{environment}/compare", get(environments::pages::compare::page))
        .route("/{organization}/environments/{environment}/agents", get(environments::pages::agents::page))
        .route("/{organization}/environments/{environment}/access-review", get(access_review::page::page))
        .route(
            "/{organization}/artifacts/{fingerprint}",
            get(artifacts::page::page).post(artifacts::approval_form::submit),
        )
        .route("/{organization}/flows/{flow}/trails/{trail}", get(trails::page::page))
        .route(
            "/{organization}/flows/{flow}/trails/{trail}/attestations/{attestation}",
            get(attestations::page::page),
        )
        .route("/{organization}/actions", get(actions::page::list))
        .route("/{organization}/actions/{number}", get(actions::page::page))
        .route("/{organization}/policies", get(policies::page::list))
        .route("/{organization}/policies/{policy}", get(policies::page::page))
        .route("/{organization}/search", get(search::page::page))
        .route("/{organization}/packages", get(packages::page::page))
        .route("/{organization}/audit", get(audit::page::page))
        .fallback(async |_: Browser| Refusal::NotFound)
        .method_not_allowed_fallback(async || Problem::method_not_allowed());
    Router::new()
        .nest("/ui", pages)
        .route("/ui/", get(sessions::sign_in::home))
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), limit_memory))
        .layer(from_fn_with_state(app.site.clone(), render_errors))
        .layer(header(CONTENT_SECURITY_POLICY, CONTENT_POLICY))
        .layer(header(X_FRAME_OPTIONS, "DENY"))
        .layer(header(X_CONTENT_TYPE_OPTIONS, "nosniff"))
        // With "no-referrer", browsers send "null" as the Origin of a form (Fetch Standard, section 3.2).
        .layer(header(REFERRER_POLICY, "same-origin"))
        .layer(SetResponseHeaderLayer::if_not_present(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// Turns every error into a page, whether a handler or axum returned it.
async fn render_errors(
    State(site): State<Site>,
    context: RequestContext,
    request: Request,
    next: Next,
) -> Response {
    // No name contains a NUL, and PostgreSQL rejects it.
    let is_valid = !request.uri().path().contains("%00");
    let mut response = if is_valid { next.run(request).await } else { Refusal::NotFound.into_response() };
    if let Some(refusal) = refusal(&mut response) {
        let mut page = refusal.render(&site, &context);
        // Other headers stay, for example Allow and Retry-After.
        for (name, value) in response.headers() {
            if ![CONTENT_TYPE, CONTENT_LENGTH].contains(name) {
                page.headers_mut().insert(name, value.clone());
            }
        }
        response = page;
    }
    response
}

/// The error of a response that is not a page.
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
    let is_error = status.is_client_error() || status.is_server_error();
    is_error.then(|| Refusal::Problem(Problem::unreadable(status)))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "max-age=3600")], text).into_response()
}
