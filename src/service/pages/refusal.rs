//! A page that cannot be shown, as a page.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use url::form_urlencoded::byte_serialize;

use super::layout;
use super::outside::text;
use crate::service::app::App;
use crate::service::problem::Problem;
use crate::store;

/// Why a page is not shown.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
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
    /// As a page.
    pub(super) fn shown(&self, app: &App) -> Response {
        match self {
            Self::SignIn { wanted } => {
                let wanted: String = byte_serialize(wanted.as_bytes()).collect();
                Redirect::to(&format!("{}?next={wanted}", app.links.page(&["sign-in"]))).into_response()
            }
            Self::NotFound => {
                let why = "There is nothing here, or nothing that you may see.";
                said(app, StatusCode::NOT_FOUND, "Not found", why)
            }
            Self::Problem(problem) => said(app, problem.status(), "It did not work", &problem.told()),
        }
    }
}

fn said(app: &App, status: StatusCode, title: &str, message: &str) -> Response {
    let content = html! {
        h1 { (title) }
        p { (text(message)) }
        p { a href=(app.links.page(&[])) { "To the start" } }
    };
    (status, layout::page(app, title, None, &content)).into_response()
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
