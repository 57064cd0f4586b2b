//! A trail: whether it is as its flow expects, and the attestations in it with their results.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};
use serde_json::Value;

use super::outside::{address, lines, link, more, passed, stamp, table, text};
use super::refusal::Refusal;
use super::visitor::Visitor;
use super::words::{badge, count};
use super::{bar, layout};
use crate::domain::compliance::Compliance;
use crate::domain::model::{AttestationStatus, FreeForm, JunitResult, Page, Trail, TrailCommit};
use crate::domain::visible::Visible;
use crate::service::app::{App, now};
use crate::service::problem::Problem;
use crate::service::segments::Segments;
use crate::service::trails::shown;
use crate::store::traced::{Attested, MOST};
use crate::store::trails::Filter;

/// As many suites of an attestation as are shown.
const SUITES: usize = 100;

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
    let mut listed = transaction.trails(&organization, filter, only).await?;
    let Some(trail) = listed.trails.pop() else { return Err(Refusal::NotFound) };
    let attestations = transaction.attestations_of_trail(trail.id).await?;
    drop(transaction);
    let trail = shown(trail, &listed.tags, &listed.templates, now());
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
        (expected(&trail))
        section {
            h2 { "Attestations" }
            @for attested in &attestations.listed { (attestation(attested)) }
            (more(attestations.has_more, MOST, "attestations"))
        }
    };
    Ok(layout::page(&app, &Visible(&trail.name).to_string(), Some(&visitor), &content))
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

/// What the flow's template asks for, and what of it is there.
fn expected(trail: &Trail) -> Markup {
    let status = &trail.compliance_status;
    let rows = html! {
        @for status in &status.attestations_statuses { (row("the trail", status)) }
        @for (artifact, status) in &status.artifacts_statuses {
            @for status in &status.attestations_statuses { (row(artifact, status)) }
        }
    };
    html! {
        section {
            h2 { "What counts" }
            @match &trail.template {
                Some(template) => p { "By version " (template.version) " of the flow's template." },
                None => p { "The flow has no template: every latest attestation has to pass." },
            }
            (table("What counts", &["Attestation", "Of", "Type", "Result"], &rows))
        }
    }
}

fn row(target: &str, status: &AttestationStatus) -> Markup {
    html! {
        tr {
            th scope="row" {
                @match &status.attestation_id {
                    Some(id) => a href={ "#" (id) } { (text(&status.attestation_name)) },
                    None => (text(&status.attestation_name)),
                }
            }
            td { (text(target)) }
            td { (text(&status.attestation_type)) }
            td {
                @if status.attestation_id.is_some() { (passed(status.is_compliant)) }
                @else { span class="badge bad" { "missing" } }
                @if status.unexpected { " not asked for" }
            }
        }
    }
}

fn attestation(attested: &Attested) -> Markup {
    html! {
        article.attestation.old[attested.is_superseded] id=(attested.id) {
            h3 {
                (text(&attested.name)) " " (passed(attested.passes))
                @if attested.is_superseded { " superseded" }
            }
            (bar::bar(&bar::total(&attested.results)))
            (suites(&attested.results))
            @if !attested.description.is_empty() { p { (lines(&attested.description)) } }
            dl {
                dt { "When" }
                dd { (stamp(attested.created_at)) ", by " (text(&attested.reported_by)) }
                @if !attested.targets.is_empty() {
                    dt { "Of" }
                    dd { ul.plain { @for target in &attested.targets { li { (text(target)) } } } }
                }
                @if !attested.origin_url.is_empty() {
                    dt { "From" }
                    dd { (address(&attested.origin_url)) }
                }
                (external(&attested.external_urls))
                @if let Some(size) = attested.attachment {
                    dt { "File" }
                    dd {
                        @if let Some(name) = &attested.attachment_name { (text(name)) ", " }
                        (count(size, "byte", "bytes"))
                    }
                }
            }
            (data(&attested.user_data))
        }
    }
}

/// The addresses that were sent by name.
fn external(urls: &FreeForm) -> Markup {
    let urls: BTreeMap<String, Value> = serde_json::from_str(urls.as_str()).unwrap_or_default();
    html! {
        @if !urls.is_empty() {
            dt { "Elsewhere" }
            dd {
                ul.plain {
                    @for (name, url) in &urls {
                        li { (text(name)) ": " (address(url.as_str().unwrap_or(&url.to_string()))) }
                    }
                }
            }
        }
    }
}

/// Free-form data as it came: its numbers keep their digits.
fn data(data: &FreeForm) -> Markup {
    let is_empty =
        serde_json::from_str::<BTreeMap<String, Value>>(data.as_str()).is_ok_and(|map| map.is_empty());
    html! {
        @if !is_empty {
            details open {
                summary { "Data" }
                pre tabindex="0" { (lines(data.as_str())) }
            }
        }
    }
}

/// The suites, those with failures first.
fn suites(results: &[JunitResult]) -> Markup {
    let ordered = failures_first(results);
    let rows = html! {
        @for suite in ordered.iter().take(SUITES) {
            tr {
                th scope="row" {
                    @if suite.name.as_str().is_empty() { "without a name" } @else { (text(suite.name.as_str())) }
                }
                td class=[(suite.failures > 0).then_some("bad")] { (suite.failures) }
                td class=[(suite.errors > 0).then_some("bad")] { (suite.errors) }
                td { (suite.skipped) }
                td { (suite.passed()) }
                td { (suite.total) }
                td { @if let Some(seconds) = suite.duration { (format!("{seconds:.3} s")) } }
            }
        }
    };
    let columns = ["Suite", "Failed", "Errors", "Skipped", "Passed", "All", "Took"];
    html! {
        @if !results.is_empty() { (table("Suites", &columns, &rows)) }
        @if results.len() > SUITES {
            p { "These are the first " (SUITES) " of " (results.len()) " suites." }
        }
    }
}

/// The suites in which most went wrong first, and the others in their order.
fn failures_first(results: &[JunitResult]) -> Vec<&JunitResult> {
    let mut ordered: Vec<_> = results.iter().collect();
    ordered.sort_by_key(|suite| std::cmp::Reverse(suite.wrong()));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::Text;

    #[test]
    fn suites_with_failures_come_first_and_the_others_stay_in_order() {
        let suite = |name: &str, failures, errors| JunitResult {
            name: Text::new(name).unwrap(),
            failures,
            errors,
            total: 9,
            ..JunitResult::default()
        };
        let results =
            [suite("a", 0, 0), suite("b", 1, 0), suite("c", 0, 0), suite("d", 1, 1), suite("e", 0, 1)];
        let names: Vec<_> = failures_first(&results).iter().map(|suite| suite.name.as_str()).collect();
        assert_eq!(names, ["d", "b", "e", "a", "c"]);
    }
}
