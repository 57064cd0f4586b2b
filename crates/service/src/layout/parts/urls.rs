//! URLs of pages, and links to them.

use maud::{Markup, html};

use crate::layout::parts::escape::{link, text};
use crate::layout::parts::filter::Filter;
use crate::layout::parts::format::short_digest;
use crate::layout::parts::pagination::page_of_snapshot;
use crate::site::Site;
use model::escape::Escaped;
use model::{Fingerprint, Timestamp};
use store::search::Artifact;

pub(crate) fn artifact(site: &Site, organization: &str, artifact: &Fingerprint) -> String {
    site.links.page(&[organization, "artifacts", &artifact.to_string()])
}

/// The name of an artifact, and a link to it.
pub(crate) fn artifact_link(site: &Site, organization: &str, artifact: &Artifact) -> Markup {
    html! {
        @if !artifact.name.is_empty() { (text(&artifact.name)) " " }
        (digest_link(site, organization, &artifact.fingerprint))
    }
}

/// The start of a digest as a link to the artifact.
pub(crate) fn digest_link(site: &Site, organization: &str, fingerprint: &Fingerprint) -> Markup {
    html! {
        a href=(artifact(site, organization, fingerprint)) title=(fingerprint) { code { (short_digest(fingerprint)) } }
    }
}

/// The start of a commit's hash, as a link if its page is known.
pub(crate) fn commit_link(sha: &str, url: Option<&str>) -> Markup {
    link(
        url.unwrap_or_default(),
        &html! { code title=(Escaped(sha).to_string()) { (text(&sha.chars().take(7).collect::<String>())) } },
    )
}

pub(crate) fn trail(site: &Site, organization: &str, flow: &str, trail: &str) -> String {
    site.links.page(&[organization, "flows", flow, "trails", trail])
}

#[derive(Clone, Copy)]
pub(crate) struct EnvironmentLinks<'a> {
    pub(crate) site: &'a Site,
    pub(crate) organization: &'a str,
    pub(crate) environment: &'a str,
}

impl EnvironmentLinks<'_> {
    /// A page below that of the environment.
    pub(crate) fn url(&self, subpath: &[&str]) -> String {
        let path = [&[self.organization, "environments", self.environment], subpath].concat();
        self.site.links.page(&path)
    }

    /// The name of the environment as a link to its page.
    pub(crate) fn link(&self) -> Markup {
        html! { a href=(self.page()) { (text(self.environment)) } }
    }

    /// The page of the environment, with its running artifacts.
    pub(crate) fn page(&self) -> String {
        self.url(&[])
    }

    /// Whether its name can be part of the expression of a snapshot.
    pub(crate) fn is_in_expressions(&self) -> bool {
        !self.environment.contains(['#', '~', '@'])
    }

    /// The page of the environment at a point in time.
    pub(crate) fn at(&self, at: Timestamp) -> String {
        let filter = Filter { q: String::new(), compliance: None, at: Some(at), page: 1 };
        format!("{}{}", self.page(), filter.query())
    }

    pub(crate) fn timeline(&self, page: usize) -> String {
        let path = self.url(&["timeline"]);
        if page > 1 { format!("{path}?page={page}") } else { path }
    }

    /// A snapshot on the timeline; `last` is the number of the latest snapshot.
    pub(crate) fn snapshot(&self, number: i64, last: i64) -> String {
        format!("{}#snapshot-{number}", self.timeline(page_of_snapshot(number, last)))
    }

    /// The comparison page without snapshots.
    pub(crate) fn comparison_form(&self) -> String {
        self.url(&["compare"])
    }

    pub(crate) fn comparison(&self, from: i64, to: i64) -> String {
        format!("{}?from={from}&to={to}", self.comparison_form())
    }

    /// The number of a snapshot as a link to it.
    pub(crate) fn snapshot_link(&self, number: i64, last: i64) -> Markup {
        html! { a href=(self.snapshot(number, last)) { (number) } }
    }
}
