//! The page of a trail: its compliance with the flow's template, and its attestations with their results.

use axum::extract::State;
use maud::{Markup, html};

use crate::layout::parts::attestation::JUNIT;
use crate::layout::parts::bar_chart;
use crate::layout::parts::escape::{lines, link, text, url_link};
use crate::layout::parts::format::{badge, compliance_badge, result_badge, timestamp};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::{MAX_LISTED, first_note, latest_note, table};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls;
use crate::layout::session::OrganizationPage;
use crate::resources::trails::operations::FoundTrail;
use crate::site::PageSite;
use model::{AttestationStatus, TrailCommit};
use rules::compliance::Compliance;
use store::attestations::lists::AttestationSummary;
use store::trails::Trail;

/// The page; the compliance is the same as in `list trails`.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest, user, .. }: OrganizationPage<(String, String)>,
) -> Result<HtmlPage, Refusal> {
    let (flow, name) = rest;
    let mut transaction = site.store.read().await?;
    let found = FoundTrail::find(&site, &mut transaction.of(&organization), &flow, &name).await?;
    let Some(FoundTrail { trail, attestations, .. }) = found else { return Err(Refusal::NotFound) };
    drop(transaction);
    let path = urls::trail(&site, &organization, &flow, &name);
    let content = html! {
        h1 { (text(&trail.name)) }
        @if !trail.description.is_empty() { p { (lines(&trail.description)) } }
        p { (compliance_badge(if trail.is_compliant { Compliance::Compliant } else { Compliance::NonCompliant })) }
        dl {
            dt { "Flow" }
            dd { (text(&trail.flow.name)) }
            dt { "Created" }
            dd { (timestamp(trail.created_at)) ", by " (text(&trail.created_by)) }
            dt { "Last change" }
            dd { (timestamp(trail.last_modified_at)) }
            @if !trail.origin_url.is_empty() {
                dt { "Origin" }
                dd { (url_link(&trail.origin_url)) }
            }
            @if let Some(commit) = &trail.git_commit_info { (crate::resources::trails::page::commit(commit)) }
        }
        (requirements(&path, &trail))
        section {
            h2 { "Attestations" }
            @for attested in &attestations.listed { (attestation(&path, attested)) }
            (latest_note(attestations.cut_at(), "attestations"))
        }
    };
    let alternate =
        Alternate::new(&site, &["trails", &organization, &flow, &name], &[], &["get", "trail", &flow, &name]);
    let navigation = Navigation {
        parents: &[(&flow, String::new())],
        alternate: Some(&alternate),
        ..Navigation::default()
    };
    Ok(layout::page_with_navigation(&site, &trail.name, Some(&user), navigation, &content))
}

fn commit(commit: &TrailCommit) -> Markup {
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    html! {
        @if let Some(sha) = &commit.sha1 {
            dt { "Commit" }
            dd { (link(commit.url.as_deref().unwrap_or_default(), &html! { code.whole { (sha) } })) }
        } @else if let Some(url) = non_empty(&commit.url) {
            dt { "Commit" }
            dd { (url_link(&url)) }
        }
        @if let Some(message) = non_empty(&commit.message) { dt { "Message" } dd { (lines(&message)) } }
        @if let Some(author) = non_empty(&commit.author) { dt { "Author" } dd { (text(&author)) } }
        @if let Some(branch) = non_empty(&commit.branch) { dt { "Branch" } dd { (text(&branch)) } }
        @if let Some(at) = commit.timestamp { dt { "Committed" } dd { (timestamp(at)) } }
    }
}

/// The attestations that the template requires and those that exist, non-compliant ones first.
fn requirements(path: &str, trail: &Trail) -> Markup {
    let status = &trail.compliance_status;
    let mut all: Vec<(&str, &AttestationStatus)> = Vec::new();
    all.extend(status.attestations_statuses.iter().map(|status| ("the trail", status)));
    for (artifact, status) in &status.artifacts_statuses {
        all.extend(status.attestations_statuses.iter().map(|status| (artifact.as_str(), status)));
    }
    all.sort_by_key(|(_, status)| status.is_compliant == Some(true) || status.unexpected);
    let rows = html! { @for (target, status) in all.iter().take(MAX_LISTED) { (row(path, target, status)) } };
    html! {
        section {
            h2 { "Required attestations" }
            @match &trail.template {
                Some(template) => p { "Version " (template.version) " of the template of the flow." },
                None => p { "The flow has no template: the latest attestation of each name must pass." },
            }
            (table("Required attestations", &["Attestation", "Target", "Type", "Result"], &rows))
            (first_note(all.len(), "attestations"))
        }
    }
}

fn row(path: &str, target: &str, status: &AttestationStatus) -> Markup {
    html! {
        tr {
            th scope="row" {
                @match &status.attestation_id {
                    Some(id) => a href={ (path) "/attestations/" (id) } { (text(&status.attestation_name)) },
                    None => (text(&status.attestation_name)),
                }
            }
            td { (text(target)) }
            td { (text(&status.attestation_type)) }
            td {
                @if status.attestation_id.is_some() { (result_badge(status.is_compliant)) }
                @else { (badge("bad", "missing")) }
                @if status.unexpected { " not required" }
            }
        }
    }
}

/// The summary of an attestation, with a link to its page.
fn attestation(path: &str, attested: &AttestationSummary) -> Markup {
    html! {
        article.attestation.old[attested.is_superseded] id=(attested.id) {
            h3 {
                a href={ (path) "/attestations/" (attested.id) } { (text(&attested.name)) } " " (result_badge(attested.passes))
                @if attested.is_superseded { " superseded" }
            }
            @if attested.kind == JUNIT { (bar_chart::bar(&attested.results)) } @else { p { (text(&attested.kind)) } }
            p { (timestamp(attested.created_at)) ", by " (text(&attested.reported_by)) }
        }
    }
}
