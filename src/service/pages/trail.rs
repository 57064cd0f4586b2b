//! A trail: whether it is as its flow expects, and the attestations in it with their results.

use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};

use super::parts::bar_chart;
use super::parts::escape::{address, lines, link, text};
use super::parts::format::{badge, badge_of, passed, stamp};
use super::parts::layout::{self, Way};
use super::parts::list::{LISTED, first, more, table};
use super::parts::refusal::Refusal;
use super::parts::urls;
use super::session::Visitor;
use crate::domain::evidence::compliance::Compliance;
use crate::domain::model::{AttestationStatus, Page, Trail, TrailCommit};
use crate::service::app::App;
use crate::service::http::problem::Problem;
use crate::service::http::response::fits;
use crate::service::http::segments::Segments;
use crate::service::operations::trails::shown;
use crate::store::attested_artifacts::Listed;
use crate::store::trails::Filter;

/// The trail, as `list trails` judges it.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, flow, name)): Segments<(String, String, String)>,
    visitor: Visitor,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let only = Page::new(None, Some(1)).map_err(|error| Problem::field(error.parameter, &error))?;
    let filter = Filter { flow: Some(&flow), name: Some(&name), ..Filter::default() };
    let mut transaction = app.store.read().await?;
    let size = transaction.size_of_trails(&organization, filter, only).await?;
    fits(size).map_err(|why| Problem::invalid(format!("this trail is too large to be shown: {why}")))?;
    let mut listed = transaction.trails(&organization, filter, only).await?;
    let Some(trail) = listed.trails.pop() else { return Err(Refusal::NotFound) };
    let attestations = transaction.attestations_of_trail(trail.id).await?;
    drop(transaction);
    let html_url = app.links.trail(&organization, &flow, &name);
    let trail = shown(trail, html_url, &listed.tags, &listed.templates, app.now());
    let path = urls::trail(&app, &organization, &flow, &name);
    let content = html! {
        h1 { (text(&trail.name)) }
        p { (badge(if trail.is_compliant { Compliance::Compliant } else { Compliance::NonCompliant })) }
        dl {
            dt { "Flow" }
            dd { (text(&trail.flow.name)) }
            dt { "Began" }
            dd { (stamp(trail.created_at)) ", by " (text(&trail.created_by)) }
            dt { "Last attestation" }
            dd { (stamp(trail.last_modified_at)) }
            @if let Some(commit) = &trail.git_commit_info { (self::commit(commit)) }
        }
        (expected(&path, &trail))
        section {
            h2 { "Attestations" }
            @for attested in &attestations.listed { (attestation(&path, attested)) }
            (more(attestations.cut_at(), "attestations"))
        }
    };
    let way = Way { above: &[(&flow, String::new())], ..Way::default() };
    Ok(layout::placed(&app, &trail.name, Some(&visitor), way, &content))
}

fn commit(commit: &TrailCommit) -> Markup {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    html! {
        @if let Some(sha) = &commit.sha1 {
            dt { "Commit" }
            dd { (link(commit.url.as_deref().unwrap_or_default(), &html! { code.whole { (sha) } })) }
        } @else if let Some(url) = said(&commit.url) {
            dt { "Commit" }
            dd { (address(&url)) }
        }
        @if let Some(message) = said(&commit.message) { dt { "Message" } dd { (lines(&message)) } }
        @if let Some(author) = said(&commit.author) { dt { "Author" } dd { (text(&author)) } }
        @if let Some(branch) = said(&commit.branch) { dt { "Branch" } dd { (text(&branch)) } }
        @if let Some(at) = commit.timestamp { dt { "Committed" } dd { (stamp(at)) } }
    }
}

/// What the flow's template asks for, and what of it is there: first what counts against the trail.
fn expected(path: &str, trail: &Trail) -> Markup {
    let status = &trail.compliance_status;
    let mut all: Vec<(&str, &AttestationStatus)> = Vec::new();
    all.extend(status.attestations_statuses.iter().map(|status| ("the trail", status)));
    for (artifact, status) in &status.artifacts_statuses {
        all.extend(status.attestations_statuses.iter().map(|status| (artifact.as_str(), status)));
    }
    all.sort_by_key(|(_, status)| status.is_compliant || status.unexpected);
    let rows = html! { @for (of, status) in all.iter().take(LISTED) { (row(path, of, status)) } };
    html! {
        section {
            h2 { "What counts" }
            @match &trail.template {
                Some(template) => p { "By version " (template.version) " of the flow's template." },
                None => p { "The flow has no template: every latest attestation has to pass." },
            }
            (table("What counts", &["Attestation", "Of", "Type", "Result"], &rows))
            (first(all.len(), "that are asked for or there"))
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
                @if status.attestation_id.is_some() { (passed(status.is_compliant)) }
                @else { (badge_of("bad", "missing")) }
                @if status.unexpected { " not asked for" }
            }
        }
    }
}

/// An attestation in short, and the way to its page.
fn attestation(path: &str, attested: &Listed) -> Markup {
    html! {
        article.attestation.old[attested.is_superseded] id=(attested.id) {
            h3 {
                a href={ (path) "/attestations/" (attested.id) } { (text(&attested.name)) } " " (passed(attested.passes))
                @if attested.is_superseded { " superseded" }
            }
            (bar_chart::bar(&attested.results))
            p { (stamp(attested.created_at)) ", by " (text(&attested.reported_by)) }
        }
    }
}
