//! The access review of an environment, for users with a token of role admin.

use axum::extract::State;
use maud::{Markup, html};

use crate::layout::parts::escape::text;
use crate::layout::parts::format::{timestamp, utc};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::table;
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::EnvironmentLinks;
use crate::layout::session::OrganizationPage;
use crate::resources::access_review;
use crate::site::PageSite;
use model::EnvironmentName;
use model::access::Scope;
use rules::access_review::{TokenGrant, Way};

/// The page; 404 for other roles.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: environment, user, .. }: OrganizationPage<String>,
) -> Result<HtmlPage, Refusal> {
    if !user.is_admin() {
        return Err(Refusal::NotFound);
    }
    let name: EnvironmentName = environment.parse().map_err(|_| Refusal::NotFound)?;
    let review =
        access_review::operations::read(&site, &organization, &name).await?.ok_or(Refusal::NotFound)?;
    let rows = html! {
        @for way in review.requirements.iter().chain(&review.alternatives) {
            tr {
                th scope="row" { (text(&way.requirement)) }
                td { (text(&way.action)) }
                td { (permitted(way)) }
            }
        }
    };
    let content = html! {
        h1 { "Who may approve or allow artifacts in " (text(&environment)) }
        (table("Ways to fulfill the requirements", &["Requirement", "Action", "Permitted to"], &rows))
    };
    let links = EnvironmentLinks { site: &site, organization: &organization, environment: &environment };
    let parents = [(environment.as_str(), links.page())];
    let path = ["environments", &organization, &environment, "access-review"];
    let alternate = Alternate::new(&site, &path, &[], &["get", "access-review", &environment]);
    let navigation = Navigation { parents: &parents, alternate: Some(&alternate), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Access review", Some(&user), navigation, &content))
}

fn permitted(way: &Way) -> Markup {
    html! {
        @if way.tokens.is_empty() && !way.in_bootstrap_file { "nobody" }
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
