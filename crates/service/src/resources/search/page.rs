//! The search for environments, artifacts (by digest, image, pod or commit), flows, repositories and trails.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};

use crate::http::parameters::Parameters;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::timestamp;
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::{self, EnvironmentLinks, artifact_link};
use crate::layout::session::OrganizationPage;
use crate::resources::search::results::{MAX_QUERY_CHARS, MIN_DIGITS, SearchResults};
use crate::site::{PageSite, Site};
use store::AtMost;
use store::search::{Artifact, MAX_SCANNED, PodRun, Trail};

/// The results, in one group per kind.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
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
            @if groups.is_empty() {
                p { "No results. Searched: environments, images, pods, flows, trails, digests and commits of " (text(&organization)) "." }
            }
            @for group in &groups { (group) }
        }
    };
    let content = html! {
        h1 { "Search" @if !query.is_empty() { ": " (text(&query)) } }
        p {
            "Digests and commits match by their first " (MIN_DIGITS) " digits or more; environments, images, pods, flows, "
            "repositories and trails by any part of their names. Parts of names match the latest " (MAX_SCANNED) " trails, ended images and ended pods; the "
            "environments share the pods equally. Older entries match by their full names."
        }
        p { a href=(site.links.page(&[&organization, "packages"])) { "Packages" } " are searched on their own page." }
        (results)
    };
    let path = ["search", &organization];
    let alternate = Alternate::new(&site, &path, &[("q", &query)], &["search", &query]);
    let alternate = Some(&alternate).filter(|_| !query.is_empty());
    let navigation = Navigation { query: &query, alternate, ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Search", Some(&user), navigation, &content))
}

async fn groups(site: &Site, organization: &str, query: &str) -> Result<Vec<Markup>, Refusal> {
    let mut transaction = site.store.read().await?;
    let found = SearchResults::read(&mut transaction.of(organization), query).await?;
    drop(transaction);
    let artifact = |artifact: &Artifact| artifact_link(site, organization, artifact);
    let trail = |trail: &Trail| crate::resources::search::page::trail(site, organization, trail);
    let environment = |name: &String| EnvironmentLinks { site, organization, environment: name }.link();
    let groups = [
        group("Environments", &found.environments, environment),
        group("Digests", &found.digests, artifact),
        group("Built from commits", &found.built, |(commit, fingerprint)| {
            let built = Artifact { fingerprint: *fingerprint, name: String::new() };
            html! { code.whole { (commit) } ": " (artifact(&built)) }
        }),
        group("Trails of commits", &found.trails_of_commits, trail),
        group("Images", &found.images, artifact),
        group("Pods", &found.pods, |found| pod(site, organization, found)),
        group("Flows", &found.flows, |flow| text(flow)),
        group("Repositories", &found.repositories, |name| text(name)),
        group("Trails", &found.trails, trail),
    ];
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

fn pod(site: &Site, organization: &str, pod: &PodRun) -> Markup {
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
