//! A page that cannot be shown, as a page.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use url::form_urlencoded::byte_serialize;

use super::escape::text;
use super::layout;
use crate::service::app::App;
use crate::service::http::problem::Problem;
use crate::service::pages::session::Visitor;
use crate::store;

/// Why a page is not shown.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// Nobody is signed in: they are asked to, and get what they wanted then.
    SignIn {
        /// The path and query that was wanted.
        wanted: String,
    },
    /// It is not there, or not for this visitor.
    NotFound,
    /// What the API would answer.
    Problem(Problem),
}

impl Refusal {
    /// As a page, to whoever is known to have asked.
    pub(crate) fn shown(&self, app: &App, visitor: Option<&Visitor>) -> Response {
        match self {
            Self::SignIn { wanted } => {
                let wanted: String = byte_serialize(wanted.as_bytes()).collect();
                Redirect::to(&format!("{}?next={wanted}", app.links.page(&["sign-in"]))).into_response()
            }
            Self::NotFound => {
                let why = "There is nothing here, or nothing that you may see.";
                said(app, visitor, StatusCode::NOT_FOUND, "Not found", &html! { p { (why) } })
            }
            Self::Problem(problem) => {
                // What is wrong is what was asked of a page, and the page itself may be there.
                let path = visitor.and_then(|visitor| visitor.looks_at.split_once('?')).map(|(path, _)| path);
                let why = html! {
                    p { (text(&problem.told())) }
                    @if let Some(seconds) = problem.retry_after() { p { "That is in " (seconds) " s." } }
                    @if let Some(path) = path { p { a href=(app.links.seen(path)) { "To this page, with nothing asked of it" } } }
                };
                said(app, visitor, problem.status(), "It did not work", &why)
            }
        }
    }
}

fn said(app: &App, visitor: Option<&Visitor>, status: StatusCode, title: &str, why: &Markup) -> Response {
    let content = html! {
        h1 { (title) }
        (why)
        p { a href=(app.links.page(&[])) { "To the start" } }
    };
    (status, layout::page(app, title, visitor, &content)).into_response()
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        Self::Problem(error.into())
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Carried to where the service's addresses are known, and shown there.
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
