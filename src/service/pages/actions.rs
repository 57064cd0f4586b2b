//! Actions: what is sent where when something happens, whether it arrives, and what came of what was last sent.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};
use sqlx::types::Uuid;

use super::parts::escape::text;
use super::parts::format::{badge_of, stamp};
use super::parts::layout::{self, Way};
use super::parts::list::table;
use super::parts::refusal::Refusal;
use super::parts::urls::{self, Place};
use super::session::Visitor;
use crate::domain::model::{ListedAction, Target, Timestamp, Trigger};
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::segments::Segments;
use crate::service::operations::actions::shown;
use crate::store::AtMost;
use crate::store::deliveries::{Delivery, Outcome};
use crate::store::events::EVERY;

/// How many artifacts of an event are named.
const NAMED: usize = 1;

/// All actions of an organization, by number.
pub(super) async fn list(
    State(app): State<App>,
    Segments(organization): Segments<String>,
    visitor: Visitor,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let mut transaction = app.store.read().await?;
    let actions = transaction.actions(&organization, None).await?;
    let known = transaction.known_names(&organization).await?.environments;
    drop(transaction);
    let rows = html! {
        @for action in actions {
            @let action = shown(action, &organization);
            tr {
                td { (action.number) }
                th scope="row" {
                    a href=(app.links.page(&[&organization, "actions", &action.number.to_string()])) {
                        (text(&action.name))
                    }
                }
                td { (environments(&app, &organization, &action, &known)) }
                td { (arrives(action.is_failing)) }
                td { (last(action.last_success_timestamp)) }
                td { (last(action.last_failure_timestamp)) }
            }
        }
    };
    let columns = ["Number", "Name", "Environments", "Sending", "Last success", "Last failure"];
    let content = html! {
        h1 { "Actions" }
        p { "What is sent where when something happens in an environment." }
        @if rows.0.is_empty() { p { "The bootstrap file has no action." } }
        @else { div.roomy { (table("Actions", &columns, &rows)) } }
    };
    Ok(layout::page(&app, "Actions", Some(&visitor), &content))
}

/// The action, as `get action` shows it to a reader, and what was last sent of it.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, number)): Segments<(String, String)>,
    visitor: Visitor,
    uri: Uri,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let number: i64 = number.parse().map_err(|_| Refusal::NotFound)?;
    let before: Option<Uuid> = Parameters::read(&uri, &["before"])?.parsed("before")?;
    let mut transaction = app.store.read().await?;
    let action = transaction.actions(&organization, Some(number)).await?.pop().ok_or(Refusal::NotFound)?;
    let known = transaction.known_names(&organization).await?.environments;
    let deliveries = transaction.deliveries(&organization, number, before).await?;
    drop(transaction);
    let action = shown(action, &organization);
    let path = app.links.page(&[&organization, "actions", &number.to_string()]);
    let content = html! {
        h1 { (text(&action.name)) }
        p { (arrives(action.is_failing)) }
        dl {
            dt { "Number" }
            dd { (action.number) }
            dt { "For" }
            dd { (environments(&app, &organization, &action, &known)) }
            dt { "When" }
            dd {
                ul.plain {
                    @for trigger in &action.triggers { li { code { (trigger) } ": " (meaning(*trigger)) } }
                }
            }
            dt { "Created" }
            dd { (stamp(action.created_at)) ", by " (text(&action.created_by)) }
            dt { "Last changed" }
            dd { (stamp(action.last_modified_at)) }
        }
        section {
            h2 { "Targets" }
            div.roomy { (targets(&action.targets)) }
        }
        section {
            h2 { "Deliveries" }
            (self::deliveries(&app, &organization, &deliveries))
            @if before.is_some() || deliveries.has_more {
                nav.pages aria-label="Pages" {
                    @if before.is_some() { a href=(path) { "Newest" } }
                    @if let Some(last) = deliveries.listed.last().filter(|_| deliveries.has_more) {
                        a href={ (path) "?before=" (last.id) } rel="next" { "Older" }
                    }
                }
            }
        }
    };
    let way = Way { above: &[("Actions", app.links.page(&[&organization, "actions"]))], ..Way::default() };
    Ok(layout::placed(&app, &action.name, Some(&visitor), way, &content))
}

/// The environments that an action is for; those that came into being lead to their pages.
fn environments(app: &App, organization: &str, action: &ListedAction, known: &BTreeSet<String>) -> Markup {
    html! {
        ul.plain {
            @for name in &action.environments {
                li {
                    @if name == EVERY { "every environment" }
                    @else if known.contains(name) { (Place { app, organization, environment: name }.link()) }
                    @else { (text(name)) ", which was neither declared nor reported" }
                }
            }
        }
    }
}

/// Whether what was last sent arrived, as a badge.
fn arrives(is_failing: Option<bool>) -> Markup {
    let (class, word) = match is_failing {
        None => ("open", "nothing sent yet"),
        Some(false) => ("good", "arrives"),
        Some(true) => ("bad", "failing"),
    };
    badge_of(class, word)
}

fn last(time: Option<Timestamp>) -> Markup {
    html! { @if let Some(time) = time { (stamp(time)) } @else { "never" } }
}

/// What has to happen.
fn meaning(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::StartedArtifact => "an artifact runs that did not",
        Trigger::ExitedArtifact => "an artifact runs no longer",
        Trigger::ScaledArtifact => "an artifact runs in more pods, or in fewer",
        Trigger::AllowedArtifact => "an artifact of the allow-list starts, or one that runs is put on it",
        Trigger::NonCompliantEnvironment => {
            "an environment is no longer as its policy wants it, or never was"
        }
        Trigger::CompliantEnvironment => "an environment is as its policy wants it, and was not before",
    }
}

fn targets(targets: &[Target]) -> Markup {
    let rows = html! {
        @for target in targets {
            @let (kind, name, place) = place(target);
            tr {
                th scope="row" { (text(name)) }
                td { (kind) }
                td { (place) }
                td { (arrives(target.sent().is_failing())) }
                td { (last(target.sent().last_success_at)) }
                td { (last(target.sent().last_failure_at)) }
            }
        }
    };
    table("Targets", &["Name", "Type", "Where", "Sending", "Last success", "Last failure"], &rows)
}

/// A target's type and name, and as much of its address as everybody may see.
fn place(target: &Target) -> (&'static str, &str, Markup) {
    match target {
        Target::Webhook { name, webhook, .. } => ("WEBHOOK", name, text(webhook)),
        Target::Slack { name, webhook, context, .. } => {
            let channel = context.as_ref();
            let channel = channel.and_then(|it| it.channel_name.as_ref().or(it.channel_id.as_ref()));
            let place = html! { (text(webhook)) @if let Some(channel) = channel { ", " (text(channel)) } };
            ("SLACK", name, place)
        }
        Target::Email { name, recipients, .. } => {
            let place = html! { ul.plain { @for recipient in recipients { li { (text(recipient)) } } } };
            ("EMAIL", name, place)
        }
    }
}

fn deliveries(app: &App, organization: &str, deliveries: &AtMost<Delivery>) -> Markup {
    let now = app.now();
    let rows = html! {
        @for delivery in &deliveries.listed {
            tr {
                td { (stamp(delivery.content.occurred_at)) }
                td { (Place { app, organization, environment: &delivery.content.environment }.link()) }
                td { (happened(app, organization, delivery)) }
                td { (text(&delivery.target)) @if delivery.is_closed { ", taken out since" } }
                td { (delivery.tries) }
                td { (came_of(delivery, now)) }
            }
        }
    };
    let columns = ["Happened", "Environment", "What", "Target", "Tries", "Outcome"];
    html! {
        @if deliveries.listed.is_empty() { p { "There are none." } }
        @else { div.roomy.deliveries { (table("Deliveries", &columns, &rows)) } }
    }
}

/// What happened, and to which artifacts.
fn happened(app: &App, organization: &str, delivery: &Delivery) -> Markup {
    let content = &delivery.content;
    let more = content.artifacts_total.saturating_sub(content.artifacts.len().min(NAMED));
    html! {
        code { (content.trigger) }
        @if content.artifacts_total > 0 {
            ul.plain {
                @for artifact in content.artifacts.iter().take(NAMED) {
                    li {
                        a href=(urls::artifact(app, organization, &artifact.fingerprint)) {
                            (text(&artifact.name))
                        }
                    }
                }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
    }
}

fn came_of(delivery: &Delivery, now: Timestamp) -> Markup {
    match &delivery.outcome {
        Outcome::Sent(at) => html! { (badge_of("good", "sent")) " " (stamp(*at)) },
        Outcome::Dropped(at, problem) => html! {
            (badge_of("bad", "dropped")) " " (stamp(*at))
            p { (text(problem)) }
        },
        Outcome::Waits(due, problem) => html! {
            (badge_of("open", "waits"))
            @if *due > now { " next try " (stamp(*due)) } @else { " due now" }
            @if let Some(problem) = problem { p { (text(problem)) } }
        },
    }
}
