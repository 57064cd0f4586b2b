//! The search for artifacts (by digest, image, pod or commit), flows and trails.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};

use super::parts::escape::text;
use super::parts::format::timestamp;
use super::parts::layout::{self, HtmlPage, Navigation};
use super::parts::refusal::Refusal;
use super::parts::urls::{self, EnvironmentLinks, artifact_link};
use super::session::OrganizationPage;
use crate::domain::model::Fingerprint;
use crate::service::http::parameters::Parameters;
use crate::service::site::Site;
use crate::store::AtMost;
use crate::store::search::{Artifact, MAX_SCANNED, Pod, SearchText, Trail};

/// Minimum number of hex digits of a digest or commit.
const MIN_DIGITS: usize = 7;

/// Maximum length of a search text, in characters. Longer names of images match by this prefix.
const MAX_QUERY_CHARS: usize = 255;

/// The results, in one group per kind.
pub(super) async fn page(
    State(site): State<Site>,
    OrganizationPage { organization, user, .. }: OrganizationPage,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let parameters = Parameters::read(&uri, &["q"])?;
    let query: String =
        parameters.text("q").unwrap_or_default().trim().chars().take(MAX_QUERY_CHARS).collect();
    let results = if query.is_empty() {
        html! { p { "Enter a search text." } }
    } else {
        let groups = groups(&site, &organization, &query).await?;
        html! {
            @if groups.is_empty() { p { "No results." } }
            @for group in &groups { (group) }
        }
    };
    let content = html! {
        h1 { "Search" @if !query.is_empty() { ": " (text(&query)) } }
        p {
            "Digests and commits match by their first " (MIN_DIGITS) " digits or more; images, pods, flows and trails by any "
            "part of their names. Parts of names match the latest " (MAX_SCANNED) " trails, and the latest " (MAX_SCANNED) " ended images "
            "and pods, which the environments share equally. Older entries match by their full names."
        }
        (results)
    };
    let navigation = Navigation { query: &query, ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Search", Some(&user), navigation, &content))
}

async fn groups(site: &Site, organization: &str, query: &str) -> Result<Vec<Markup>, Refusal> {
    let mut transaction = site.store.read().await?;
    let search = SearchText::new(query);
    let artifact = |artifact: &Artifact| artifact_link(site, organization, artifact);
    let trail = |trail: &Trail| self::trail(site, organization, trail);
    let mut groups = Vec::new();
    if let Some((first, last)) = digest(query).and_then(|digits| Fingerprint::range(&digits)) {
        let found = transaction.find_artifacts(organization, first, last).await?;
        groups.push(group("Digests", &found, artifact));
    }
    if let Some(digits) = digits(query) {
        let found = transaction.find_artifacts_of_commit(organization, &digits, None).await?;
        groups.push(group("Built from commits", &found, |(commit, fingerprint)| {
            let built = Artifact { fingerprint: *fingerprint, name: String::new() };
            html! { code.whole { (commit) } ": " (artifact(&built)) }
        }));
        let found = transaction.find_trails_of_commit(organization, &digits).await?;
        groups.push(group("Trails of commits", &found, trail));
    }
    groups.push(group("Images", &transaction.find_images(organization, &search).await?, artifact));
    let found = transaction.find_pods(organization, &search).await?;
    groups.push(group("Pods", &found, |found| pod(site, organization, found)));
    let found = transaction.find_flows(organization, &search).await?;
    groups.push(group("Flows", &found, |flow| text(flow)));
    groups.push(group("Trails", &transaction.find_trails(organization, &search).await?, trail));
    Ok(groups.into_iter().flatten().collect())
}

/// A group of results; `None` if it is empty.
fn group<T>(title: &str, found: &AtMost<T>, render: impl Fn(&T) -> Markup) -> Option<Markup> {
    (!found.listed.is_empty()).then(|| {
        html! {
            section {
                h2 { (title) }
                ul.found { @for found in &found.listed { li { (render(found)) } } }
                @if let Some(listed) = found.cut_at() { p { "Only the first " (listed) " results are shown." } }
            }
        }
    })
}

fn trail(site: &Site, organization: &str, trail: &Trail) -> Markup {
    html! { a href=(urls::trail(site, organization, &trail.flow, &trail.name)) { (text(&trail.name)) } " in " (text(&trail.flow)) }
}

fn pod(site: &Site, organization: &str, pod: &Pod) -> Markup {
    let links = EnvironmentLinks { site, organization, environment: &pod.environment };
    html! {
        (text(&pod.namespace)) "/" (text(&pod.name)) " in " (links.link())
        ", " (timestamp(pod.started_at)) " to "
        @match pod.ended_at { Some(ended) => (timestamp(ended)), None => "now" }
        ul {
            @for (name, fingerprint) in &pod.digests {
                li { (artifact_link(site, organization, &Artifact { fingerprint: *fingerprint, name: name.clone() })) }
            }
        }
    }
}

/// The digits of a digest or its prefix: with or without `sha256:`, shortened like on pages, or after an image and `@`.
fn digest(query: &str) -> Option<String> {
    let query = query.rsplit_once('@').map_or(query, |(_, digest)| digest).trim_end_matches('…');
    digits(query.strip_prefix("sha256:").unwrap_or(query))
}

/// Hex digits in lower case, if there are enough for a search.
fn digits(query: &str) -> Option<String> {
    let is_enough = (MIN_DIGITS..=64).contains(&query.len()) && query.bytes().all(|b| b.is_ascii_hexdigit());
    is_enough.then(|| query.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_needs_seven_digits_with_or_without_algorithm() {
        for (query, expected) in [
            ("abcdef0", Some("abcdef0")),
            ("sha256:ABCDEF0", Some("abcdef0")),
            ("registry.example.com/cart@sha256:abcdef01", Some("abcdef01")),
            ("abcdef012345…", Some("abcdef012345")),
            ("abcdef", None),
            ("sha256:abcdef", None),
            ("abcdefg", None),
            ("sha512:abcdef0", None),
            ("", None),
        ] {
            assert_eq!(digest(query).as_deref(), expected, "{query}");
        }
        assert!(digest(&"a".repeat(64)).is_some() && digest(&"a".repeat(65)).is_none());
    }
}
