//! Forms that a browser submits.

use std::collections::HashMap;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use url::{Url, form_urlencoded};

use crate::app::App;
use crate::http::body::{Paced, content_length};
use crate::http::problem::Problem;

/// The fields of a form. May contain a token, hence no `Debug`.
pub(crate) struct Form(HashMap<String, String>);

impl Form {
    /// Reads a form of at most `max` bytes, from the memory of an organization; `""` for anonymous clients.
    pub(crate) async fn read(
        app: &App,
        organization: &str,
        headers: &HeaderMap,
        body: Body,
        max: u64,
    ) -> Result<Self, Problem> {
        let length = content_length(headers, "the form", max)?.unwrap_or_default();
        let body = Paced::new(body, app.limits.pace);
        let received = body.read("the form", max, length, app.inbound.share(organization)).await?;
        Ok(Self(form_urlencoded::parse(&received.bytes).into_owned().collect()))
    }

    /// Removes a field; empty if it was not sent.
    pub(crate) fn take(&mut self, name: &str) -> String {
        self.0.remove(name).unwrap_or_default()
    }
}

/// Rejects a form that was submitted from another site, by the `Origin` header (Fetch Standard, section 3.2).
pub(crate) fn check_origin(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(ORIGIN).and_then(|origin| Url::parse(origin).ok());
    let host = |scheme: &str| text(HOST).and_then(|host| Url::parse(&format!("{scheme}://{host}")).ok());
    let is_same = origin.is_some_and(|origin| {
        let public = Url::parse(app.site.links.base()).is_ok_and(|public| public.origin() == origin.origin());
        // If TLS does not end here, it may end at a proxy: the scheme of the browser is unknown.
        let scheme = if app.site.links.is_tls() { "https" } else { origin.scheme() };
        public || host(scheme).is_some_and(|host| host.origin() == origin.origin())
    });
    let why = "the form was not sent by a page of this service: reload the page and retry";
    if is_same { Ok(()) } else { Err(Problem::forbidden(why)) }
}
