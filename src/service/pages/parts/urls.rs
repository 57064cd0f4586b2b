//! The addresses of pages, and what leads there.

use maud::{Markup, html};

use super::escape::text;
use super::pagination::page_of_snapshot;
use crate::domain::model::{Fingerprint, Timestamp};
use crate::service::app::App;
use crate::service::pages::pure::filter::Filter;

/// The page of an artifact.
pub(crate) fn artifact(app: &App, organization: &str, artifact: &Fingerprint) -> String {
    app.links.page(&[organization, "artifacts", &artifact.to_string()])
}

/// The page of a trail.
pub(crate) fn trail(app: &App, organization: &str, flow: &str, trail: &str) -> String {
    app.links.page(&[organization, "flows", flow, "trails", trail])
}

/// An environment, as its pages are addressed.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) app: &'a App,
    pub(crate) organization: &'a str,
    pub(crate) environment: &'a str,
}

impl Place<'_> {
    fn below(&self, more: &[&str]) -> String {
        let path = [&[self.organization, "environments", self.environment], more].concat();
        self.app.links.page(&path)
    }

    /// The environment's name, which leads to what runs there.
    pub(crate) fn link(&self) -> Markup {
        html! { a href=(self.now()) { (text(self.environment)) } }
    }

    /// What runs now.
    pub(crate) fn now(&self) -> String {
        self.below(&[])
    }

    /// What ran at a moment.
    pub(crate) fn at(&self, at: Timestamp) -> String {
        let filter = Filter { q: String::new(), compliance: None, at: Some(at), page: 1 };
        format!("{}{}", self.now(), filter.query())
    }

    /// A page of the snapshots.
    pub(crate) fn timeline(&self, page: usize) -> String {
        let path = self.below(&["timeline"]);
        if page > 1 { format!("{path}?page={page}") } else { path }
    }

    /// A snapshot among the others, the last of which is `last`.
    pub(crate) fn snapshot(&self, number: i64, last: i64) -> String {
        format!("{}#snapshot-{number}", self.timeline(page_of_snapshot(number, last)))
    }

    /// Where two snapshots are compared.
    pub(crate) fn compare(&self) -> String {
        self.below(&["compare"])
    }

    /// Two snapshots compared.
    pub(crate) fn compared(&self, from: i64, to: i64) -> String {
        format!("{}?from={from}&to={to}", self.compare())
    }

    /// A snapshot's number, which leads to it.
    pub(crate) fn number(&self, number: i64, last: i64) -> Markup {
        html! { a href=(self.snapshot(number, last)) { (number) } }
    }
}
