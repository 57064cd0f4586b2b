//! The policies of an organization, and the page of one: its rules, versions and environments, and the artifacts that fail it.

use axum::extract::State;
use maud::{Markup, html};

use crate::layout::parts::escape::{lines, text};
use crate::layout::parts::format::timestamp;
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::{first_rows_note, table};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::{EnvironmentLinks, artifact_link};
use crate::layout::session::OrganizationPage;
use crate::site::{PageSite, Site};
use model::{PolicySummary, PolicyVersionSummary};
use rules::policy::{Policy, PolicyVersion};
use store::AtMost;
use store::policies::summaries::FailingArtifact;

pub(crate) async fn list(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, user, .. }: OrganizationPage,
) -> Result<HtmlPage, Refusal> {
    let policies = store::policies::summaries::list(&mut site.store.read().await?.of(&organization)).await?;
    let rows = html! {
        @for policy in &policies {
            tr {
                th scope="row" {
                    a href=(site.links.page(&[&organization, "policies", &policy.name])) { (text(&policy.name)) }
                }
                td { @if let Some(current) = policy.versions.last() { (current.version) } }
                td { (lines(&policy.description)) }
                td { (environments(&site, &organization, policy)) }
            }
        }
    };
    let content = html! {
        h1 { "Policies" }
        @if policies.is_empty() {
            p { "No policies. Next: declare one below " code { "policies" } ", or " code { "policy" } " of an environment, in the bootstrap file." }
        }
        @else { (table("Policies", &["Policy", "Version", "Description", "Environments"], &rows)) }
    };
    let alternate = Alternate::new(&site, &["policies", &organization], &[], &["list", "policies"]);
    let navigation = Navigation { alternate: Some(&alternate), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Policies", Some(&user), navigation, &content))
}

pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: name, user, .. }: OrganizationPage<String>,
) -> Result<HtmlPage, Refusal> {
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let policy = store::policies::summaries::get(tenant, &name).await?.ok_or(Refusal::NotFound)?;
    let failing = store::policies::summaries::failing_artifacts(tenant, &name).await?;
    drop(transaction);
    let content = html! {
        h1 { (text(&name)) }
        @if !policy.description.is_empty() { p { (lines(&policy.description)) } }
        dl.head {
            dt { "Environments" }
            dd { (environments(&site, &organization, &policy)) }
        }
        @if let Some(current) = policy.versions.last() { (rules(&name, current)) }
        (failures(&site, &organization, &failing))
        (versions(&policy))
    };
    let parents = [("Policies", site.links.page(&[&organization, "policies"]))];
    let path = ["policies", &organization, &name];
    let alternate = Alternate::new(&site, &path, &[], &["get", "policy", &name]);
    let navigation = Navigation { parents: &parents, alternate: Some(&alternate), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, &name, Some(&user), navigation, &content))
}

/// The environments to which a policy is attached.
fn environments(site: &Site, organization: &str, policy: &PolicySummary) -> Markup {
    html! {
        @for (number, environment) in policy.consuming_envs.iter().enumerate() {
            @if number > 0 { ", " }
            (EnvironmentLinks { site, organization, environment }.link())
        }
        @if policy.consuming_envs.is_empty() { "none" }
    }
}

/// The rules of the current version, in words and as the file.
fn rules(name: &str, current: &PolicyVersionSummary) -> Markup {
    let file = current.policy_yaml.as_deref().unwrap_or_default();
    let version = PolicyVersion { name: name.to_owned(), version: current.version };
    html! {
        section {
            h2 { "Rules of version " (current.version) }
            @match Policy::parse(version, file) {
                Ok(policy) if policy.rules.is_empty() => p { "No rules: each artifact fulfills the policy." },
                Ok(policy) => ol {
                    @for (index, rule) in policy.rules.iter().enumerate() {
                        li id=(format!("rule-{}", index + 1)) { (text(&rule.to_string())) }
                    }
                },
                Err(_) => p { "This version of the program cannot read the policy." },
            }
            details { summary { "Policy file" } pre { (lines(file)) } }
        }
    }
}

fn failures(site: &Site, organization: &str, failing: &AtMost<FailingArtifact>) -> Markup {
    let rows = html! {
        @for failing in &failing.listed {
            tr {
                th scope="row" {
                    (EnvironmentLinks { site, organization, environment: &failing.environment }.link())
                }
                td { (artifact_link(site, organization, &failing.artifact)) }
                td { ul.plain { @for reason in &failing.reasons { li { (text(&reason.finding())) } } } }
            }
        }
    };
    html! {
        section {
            h2 { "Not fulfilled now" }
            @if failing.listed.is_empty() { p { "No running artifact fails the policy." } }
            @else { (table("Not fulfilled now", &["Environment", "Artifact", "Reasons"], &rows)) }
            (first_rows_note(failing.cut_at(), "non-compliant artifacts"))
        }
    }
}

fn versions(policy: &PolicySummary) -> Markup {
    let rows = html! {
        @for version in policy.versions.iter().rev() {
            tr {
                th scope="row" { (version.version) }
                td { (timestamp(version.timestamp)) }
                td { (text(&version.created_by)) }
                td { (lines(&version.comment)) }
            }
        }
    };
    html! {
        section {
            h2 { "Versions" }
            (table("Versions", &["Version", "Created", "By", "Comment"], &rows))
        }
    }
}
