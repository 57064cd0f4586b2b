//! The access review of an environment, for users with a token of role admin.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};

use super::parts::escape::text;
use super::parts::format::{timestamp, utc};
use super::parts::layout::{self, Alternate, HtmlPage, Navigation};
use super::parts::list::table;
use super::parts::refusal::Refusal;
use super::parts::urls::{EnvironmentLinks, digest_link};
use super::session::OrganizationPage;
use crate::domain::evidence::access::Scope;
use crate::domain::evidence::access_review::{AccessReview, TokenGrant, Way};
use crate::domain::model::{EnvironmentName, Fingerprint};
use crate::service::http::parameters::Parameters;
use crate::service::operations::access_review;
use crate::service::site::Site;

/// The page; 404 for other roles.
pub(super) async fn page(
    State(site): State<Site>,
    OrganizationPage { organization, rest: environment, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    if !user.is_admin() {
        return Err(Refusal::NotFound);
    }
    let artifact: Option<Fingerprint> = Parameters::read(&uri, &["fingerprint"])?.parsed("fingerprint")?;
    let name: EnvironmentName = environment.parse().map_err(|_| Refusal::NotFound)?;
    let review =
        access_review::read(&site, &organization, &name, artifact).await?.ok_or(Refusal::NotFound)?;
    let links = EnvironmentLinks { site: &site, organization: &organization, environment: &environment };
    let content = html! {
        h1 { "Who may make artifacts compliant in " (text(&environment)) }
        @if let Some(artifact) = &review.artifact { (artifact_facts(&site, &organization, artifact, &review)) }
        h2 { "Requirements" }
        @if !review.has_policy { p { "The environment has no policy: its artifacts are UNKNOWN." } }
        @if !review.requirements.is_empty() { (ways("Requirements", &review.requirements)) }
        h2 { "Ways around all requirements" }
        (ways("Ways around all requirements", &review.alternatives))
    };
    let parents = [(environment.as_str(), links.page())];
    let fingerprint = artifact.map(|artifact| artifact.to_string());
    let query: Vec<_> = fingerprint.iter().map(|fingerprint| ("fingerprint", fingerprint.as_str())).collect();
    let arguments = ["get", "access-review", &environment].into_iter();
    let option = fingerprint.iter().flat_map(|digest| ["--fingerprint", digest]);
    let alternate = Alternate::new(
        &site,
        &["environments", &organization, &environment, "access-review"],
        &query,
        &arguments.chain(option).collect::<Vec<_>>(),
    );
    let navigation = Navigation { parents: &parents, alternate: Some(&alternate), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Access review", Some(&user), navigation, &content))
}

fn artifact_facts(site: &Site, organization: &str, artifact: &Fingerprint, review: &AccessReview) -> Markup {
    html! {
        dl.head {
            dt { "Artifact" }
            dd { (digest_link(site, organization, artifact)) }
            dt { "Compliance" }
            dd { (review.compliance.unwrap_or_default()) }
            @if !review.reasons.is_empty() {
                dt { "Reasons" }
                dd { (text(&review.reasons.join("; "))) }
            }
        }
    }
}

fn ways(label: &str, ways: &[Way]) -> Markup {
    let rows = html! {
        @for way in ways {
            tr {
                th scope="row" { (text(&way.requirement)) }
                td { (text(&way.action)) }
                td { (permitted(way)) }
            }
        }
    };
    table(label, &["Requirement", "Action", "Permitted to"], &rows)
}

fn permitted(way: &Way) -> Markup {
    html! {
        @if let Some(obstacle) = &way.obstacle { "nobody: " (text(obstacle)) }
        @else if way.tokens.is_empty() && !way.in_bootstrap_file { "nobody" }
        @if way.in_bootstrap_file { "everybody who can change the bootstrap file" }
        @if !way.tokens.is_empty() {
            ul.plain { @for token in &way.tokens { li { (described(token)) } } }
            @if way.tokens_total > way.tokens.len() {
                p { "Only the first " (way.tokens.len()) " of " (way.tokens_total) " tokens are shown." }
            }
        }
    }
}

fn described(token: &TokenGrant) -> Markup {
    html! {
        @match &token.claims {
            None => { "token " (text(&token.name)) }
            Some(claims) => { "tokens of issuer " (text(&token.name)) " with " (text(claims)) }
        }
        ", role " (token.role.as_str())
        @if token.scope != Scope::default() { " for " (text(&token.scope.to_string())) }
        @if let Some(end) = token.expires_at { ", until " span title=(utc(end)) { (timestamp(end)) } }
    }
}
