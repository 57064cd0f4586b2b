//! The agents of an environment.

use axum::extract::State;
use maud::html;

use crate::layout::parts::escape::text;
use crate::layout::parts::format::{badge, timestamp, timestamp_with_age};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::table;
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::EnvironmentLinks;
use crate::layout::session::OrganizationPage;
use crate::resources::environments::operations::agents;
use crate::site::PageSite;

pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: environment, user, .. }: OrganizationPage<String>,
) -> Result<HtmlPage, Refusal> {
    let agents = agents::read(&site, &organization, &environment).await?.ok_or(Refusal::NotFound)?;
    let now = site.now();
    let rows = html! {
        @for agent in &agents {
            tr {
                th scope="row" {
                    (text(&agent.name))
                    @if agent.is_overwritten { " " (badge("bad", "overwritten")) }
                }
                td { (text(&agent.user_agent)) }
                td { (text(agent.cluster.as_deref().unwrap_or("none"))) }
                td { (timestamp(agent.first_reported_at)) }
                td { (timestamp_with_age(agent.last_reported_at, now)) }
                td { (agent.pods) }
            }
        }
    };
    let columns = ["Agent", "Program", "Cluster", "First report", "Last report", "Pods"];
    let content = html! {
        h1 { "Agents of " (text(&environment)) }
        @if agents.iter().any(|agent| agent.is_overwritten) {
            p.warning role="status" {
                "Several agents overwrite each other: each report replaces the whole environment. \
                 Let one agent report each environment."
            }
        }
        @if agents.is_empty() {
            p { "No reports." }
        } @else {
            (table("Agents", &columns, &rows))
        }
    };
    let links = EnvironmentLinks { site: &site, organization: &organization, environment: &environment };
    let parents = [(environment.as_str(), links.page())];
    let path = ["environments", &organization, &environment, "agents"];
    let alternate = Alternate::new(&site, &path, &[], &["list", "agents", &environment]);
    let alternate = Some(&alternate);
    let navigation = Navigation { parents: &parents, alternate, is_live: true, ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Agents", Some(&user), navigation, &content))
}
