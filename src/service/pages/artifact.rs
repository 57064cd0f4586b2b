//! An artifact: where it comes from, what was said of it, where it runs and ran.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};

use super::parts::allow_list::tell;
use super::parts::environment_status::Present;
use super::parts::escape::{address, lines, link, text};
use super::parts::format::{badge, badge_of, count, passed, stamp};
use super::parts::list::{more, table};
use super::parts::refusal::Refusal;
use super::parts::table::why;
use super::parts::urls::{self, Place};
use super::parts::{bar_chart, layout};
use super::session::Visitor;
use crate::domain::model::{ApprovalState, Fingerprint, GitCommit};
use crate::service::app::App;
use crate::service::http::segments::Segments;
use crate::store::approvals::Approval;
use crate::store::artifacts::{Ran, Running, Source};
use crate::store::attested_artifacts::Listed;
use crate::store::{self, AtMost, Transaction};

/// All that is known of an artifact.
struct Known {
    names: AtMost<String>,
    sources: AtMost<Source>,
    /// Where no repository was named, that of the latest attestation with one.
    commit: Option<GitCommit>,
    attestations: AtMost<Listed>,
    approvals: AtMost<(String, Approval)>,
    now: AtMost<Running>,
    before: AtMost<Ran>,
    /// Those that came into being.
    environments: BTreeSet<String>,
}

/// The artifact; 404 where it neither ran nor was attested nor approved.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, fingerprint)): Segments<(String, String)>,
    visitor: Visitor,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let artifact: Fingerprint = fingerprint.parse().map_err(|_| Refusal::NotFound)?;
    let known = Known::read(&mut app.store.read().await?, &organization, artifact).await?;
    if known.is_nothing() {
        return Err(Refusal::NotFound);
    }
    let digest = artifact.to_string();
    let name = known.names.listed.first().map_or("Artifact", String::as_str);
    let content = html! {
        h1 { (text(name)) }
        dl {
            dt { "Digest" }
            dd { code.whole { "sha256:" (digest) } }
            @if known.names.listed.len() > 1 {
                dt { "Names" }
                dd {
                    ul.plain { @for name in &known.names.listed { li { (text(name)) } } }
                    (more(known.names.cut_at(), "names"))
                }
            }
            (sources(&known))
        }
        (now(&app, &organization, &known.now))
        (attestations(&app, &organization, &known.attestations))
        (approvals(&app, &organization, &known))
        (before(&app, &organization, &known.before))
    };
    Ok(layout::page(&app, name, Some(&visitor), &content))
}

impl Known {
    async fn read(
        transaction: &mut Transaction,
        organization: &str,
        artifact: Fingerprint,
    ) -> Result<Self, store::Error> {
        let mut now = transaction.runs_now(organization, artifact).await?;
        let allowed = transaction.allowed(organization, artifact).await?;
        for running in &mut now.listed {
            tell(&mut running.verdict, allowed.get(&running.environment.id));
        }
        let sources = transaction.sources(organization, artifact).await?;
        let attestations = transaction.attestations_of_artifact(organization, artifact).await?;
        let tested =
            attestations.listed.iter().find(|attested| sources.listed.is_empty() && attested.has_commit);
        let commit = match tested {
            Some(tested) => {
                transaction.attestation(organization, tested.id).await?.and_then(|one| one.commit)
            }
            None => None,
        };
        Ok(Self {
            names: transaction.names(organization, artifact).await?,
            sources,
            commit,
            attestations,
            approvals: transaction.approvals_of(organization, artifact).await?,
            now,
            before: transaction.ran_before(organization, artifact).await?,
            environments: transaction.known_names(organization).await?.environments,
        })
    }

    fn is_nothing(&self) -> bool {
        self.names.listed.is_empty()
            && self.attestations.listed.is_empty()
            && self.approvals.listed.is_empty()
    }
}

/// The repositories and commits.
fn sources(known: &Known) -> Markup {
    html! {
        @for source in &known.sources.listed {
            dt { "Repository" }
            dd { (link(source.url.as_deref().unwrap_or_default(), &text(&source.name))) }
            @if let Some(sha) = &source.commit_sha {
                dt { "Commit" }
                dd { (link(source.commit_url.as_deref().unwrap_or_default(), &hash(sha))) }
            }
        }
        @if known.sources.has_more {
            dt { "Repositories" }
            dd { (more(known.sources.cut_at(), "repositories")) }
        }
        @if let Some((sha, url)) = known.commit.as_ref().and_then(|commit| Some((commit.sha1.as_ref()?, &commit.url))) {
            dt { "Commit" }
            dd { (link(url.as_ref().map_or("", |url| url.as_str()), &hash(sha))) }
        }
    }
}

fn hash(sha: &str) -> Markup {
    html! { code.whole { (sha) } }
}

fn now(app: &App, organization: &str, running: &AtMost<Running>) -> Markup {
    let now = app.now();
    let rows = html! {
        @for running in &running.listed {
            @let verdict = &running.verdict;
            @let said = Present::of_artifact(running, app, now).compliance();
            tr {
                th scope="row" { (Place { app, organization, environment: &running.environment.name }.link()) }
                td { (badge(said)) }
                td { (text(&why(Some(verdict), said, ""))) }
                td { (running.pods.map_or_else(|| "not counted".to_owned(), |pods| pods.to_string())) }
                td { (stamp(running.started_at)) }
            }
        }
    };
    html! {
        section {
            h2 { "Runs now" }
            @if running.listed.is_empty() { p { "It runs nowhere." } }
            @else { (table("Runs now", &["Environment", "Compliance", "Why", "Pods", "Since"], &rows)) }
            (more(running.cut_at(), "environments"))
        }
    }
}

fn attestations(app: &App, organization: &str, attestations: &AtMost<Listed>) -> Markup {
    let rows = html! {
        @for attested in &attestations.listed {
            @let trail = urls::trail(app, organization, &attested.flow, &attested.trail);
            tr.old[attested.is_superseded] {
                th scope="row" { a href={ (trail) "/attestations/" (attested.id) } { (text(&attested.name)) } }
                td { (passed(attested.passes)) @if attested.is_superseded { " superseded" } }
                td { (text(&attested.flow)) }
                td { a href=(trail) { (text(&attested.trail)) } }
                td { (bar_chart::said(&attested.results)) }
                td { (stamp(attested.created_at)) }
                td { (text(&attested.reported_by)) }
            }
        }
    };
    let columns = ["Name", "Result", "Flow", "Trail", "Tests", "When", "By"];
    html! {
        section {
            h2 { "Attestations" }
            @if attestations.listed.is_empty() { p { "Nothing was attested of it." } }
            @else { (table("Attestations", &columns, &rows)) }
            (more(attestations.cut_at(), "attestations"))
        }
    }
}

fn approvals(app: &App, organization: &str, known: &Known) -> Markup {
    let approvals = &known.approvals.listed;
    let rows = html! {
        @for (flow, approval) in approvals {
            tr {
                th scope="row" { (text(flow)) " " (approval.number) }
                td { (state(approval.state)) }
                td {
                    @match &approval.environment {
                        Some(name) if known.environments.contains(name.as_str()) => {
                            (Place { app, organization, environment: name.as_str() }.link())
                        }
                        // It was neither declared nor reported.
                        Some(name) => (text(name.as_str())),
                        None => "any",
                    }
                }
                td { (lines(&approval.content.description)) }
                td {
                    ul.plain {
                        @for signed in &approval.content.approvals {
                            li {
                                (text(&signed.approved_by)) ", " (stamp(signed.timestamp))
                                @if !signed.comment.is_empty() { ": " (lines(&signed.comment)) }
                                @if !signed.approval_url.is_empty() { " (" (address(&signed.approval_url)) ")" }
                            }
                        }
                    }
                }
                td { (stamp(approval.modified_at)) }
            }
        }
    };
    let columns = ["Flow and number", "State", "Environment", "What for", "By", "Last changed"];
    html! {
        section {
            h2 { "Approvals" }
            @if approvals.is_empty() { p { "No approval of it is known." } }
            @else { (table("Approvals", &columns, &rows)) }
            (more(known.approvals.cut_at(), "approvals"))
        }
    }
}

fn state(state: ApprovalState) -> Markup {
    let (class, word) = match state {
        ApprovalState::Approved => ("good", "approved"),
        ApprovalState::Unapproved => ("bad", "not approved"),
        ApprovalState::Pending => ("open", "pending"),
    };
    badge_of(class, word)
}

fn before(app: &App, organization: &str, before: &AtMost<Ran>) -> Markup {
    let rows = html! {
        @for ran in &before.listed {
            @let (first, last) = ran.snapshots;
            @let place = Place { app, organization, environment: &ran.environment };
            tr {
                th scope="row" { (place.link()) }
                td { a href=(place.at(ran.started_at)) { (stamp(ran.started_at)) } }
                td { (stamp(ran.ended_at)) }
                td {
                    (place.number(first, ran.current))
                    @if first != last { " to " (place.number(last, ran.current)) }
                }
            }
        }
    };
    let ran = i64::try_from(before.listed.len()).unwrap_or(i64::MAX);
    html! {
        section {
            h2 { "Ran before" }
            @if before.listed.is_empty() { p { "It ran nowhere before, as far as the history is kept." } }
            @else {
                (table(&count(ran, "run before", "runs before"), &["Environment", "From", "Until", "Snapshots"], &rows))
            }
            (more(before.cut_at(), "runs"))
        }
    }
}
