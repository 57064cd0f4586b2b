//! Errors of pages, rendered as pages.

use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use url::form_urlencoded::byte_serialize;

use crate::http::context::RequestContext;
use crate::http::problem::Problem;
use crate::layout::parts::cookie::Cookie;
use crate::layout::parts::escape::text;
use crate::layout::parts::layout;
use crate::site::Site;

#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// There is no session. After signing in, the browser returns to `target`.
    SignIn {
        /// The path and query of the requested page.
        target: String,
        /// The cookie of the request, which the redirect deletes. Without a cookie it deletes none: browsers omit the
        /// cookie from forms of other sites, which must not sign the user out.
        cookie: Option<Cookie>,
    },
    /// The page does not exist, or the user may not see it.
    NotFound,
    /// The error that the API would return.
    Problem(Problem),
}

impl Refusal {
    pub(crate) fn render(&self, site: &Site, request: &RequestContext) -> Response {
        let user = request.user();
        let (status, title, explanation) = match self {
            Self::SignIn { target, cookie } => {
                let target: String = byte_serialize(target.as_bytes()).collect();
                let redirect = Redirect::to(&format!("{}?next={target}", site.links.page(&["sign-in"])));
                return (cookie.map(|cookie| [(SET_COOKIE, cookie.clear())]), redirect).into_response();
            }
            Self::NotFound => {
                let text = "This page does not exist, or you do not have access to it.";
                (StatusCode::NOT_FOUND, "Not found", html! { p { (text) } })
            }
            Self::Problem(problem) => {
                // The page may exist if the query is the reason of the error.
                let path = user.and_then(|user| user.target.split_once('?')).map(|(path, _)| path);
                let explanation = html! {
                    p { (text(&problem.text())) }
                    @if let Some(seconds) = problem.retry_after() { p { "Retry in " (seconds) " s." } }
                    @if let Some(path) = path { p { a href=(site.links.seen(path)) { "Open this page without parameters" } } }
                    // A rate-limited address may still sign in with a valid token.
                    @if problem.status() == StatusCode::TOO_MANY_REQUESTS {
                        p { a href=(site.links.page(&["sign-in"])) { "Sign in" } }
                    }
                    @if problem.status().is_server_error() { p { "Request ID: " code { (request.id) } } }
                };
                (problem.status(), "Request failed", explanation)
            }
        };
        let content = html! {
            h1 { (title) }
            (explanation)
            p { a href=(site.links.page(&[])) { "Home" } }
        };
        (status, layout::page(site, title, user, &content)).into_response()
    }
}

impl<E: Into<Problem>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

/// The middleware of all pages takes the refusal from the extensions and renders it, since it knows the site.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            refusal => {
                let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
                response.extensions_mut().insert(refusal);
                response
            }
        }
    }
}
