//! The pages of actions: triggers, targets, and the results of the latest deliveries.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use sqlx::types::Uuid;

use crate::http::parameters::Parameters;
use crate::layout::parts::escape::text;
use crate::layout::parts::format::{badge, timestamp};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::table;
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::{self, EnvironmentLinks};
use crate::layout::session::OrganizationPage;
use crate::site::{PageSite, Site};
use model::{Timestamp, Trigger};
use rules::notification::{Content, EventContent};
use store::AtMost;
use store::environments::events::ALL_ENVIRONMENTS;
use store::notifications::actions::PublicAddress;
use store::notifications::actions::{ListedAction, ListedTarget};
use store::notifications::deliveries::Delivery;

/// Maximum number of artifacts that are listed per event.
const MAX_ARTIFACTS: usize = 1;

/// All actions of an organization, by number.
pub(crate) async fn list(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, user, .. }: OrganizationPage,
) -> Result<HtmlPage, Refusal> {
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let actions = store::notifications::actions::list(tenant, None).await?;
    let known = store::bootstrap::known_names(tenant).await?.environments;
    drop(transaction);
    let rows = html! {
        @for action in &actions {
            tr {
                td { (action.number) }
                th scope="row" {
                    a href=(site.links.page(&[&organization, "actions", &action.number.to_string()])) {
                        (text(&action.name))
                    }
                }
                td { (environments(&site, &organization, action, &known)) }
                td { (delivery_badge(action.is_failing)) }
                td { (last(action.last_success_timestamp)) }
                td { (last(action.last_failure_timestamp)) }
            }
        }
    };
    let columns = ["Number", "Name", "Environments", "Deliveries", "Last success", "Last failure"];
    let content = html! {
        h1 { "Actions" }
        p { "An action sends notifications about events in environments to its targets." }
        @if rows.0.is_empty() { p { "The bootstrap file has no actions." } }
        @else { div.roomy { (table("Actions", &columns, &rows)) } }
    };
    let path = ["organizations", &organization, "environments_notifications"];
    let alternate = Alternate::new(&site, &path, &[], &["list", "notifications"]);
    let navigation = Navigation { alternate: Some(&alternate), ..Navigation::default() };
    Ok(layout::page_with_navigation(&site, "Actions", Some(&user), navigation, &content))
}

/// The action, as `get action` returns it to a reader, and its latest deliveries.
pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, rest: number, user, .. }: OrganizationPage<String>,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let number: i64 = number.parse().map_err(|_| Refusal::NotFound)?;
    let before: Option<Uuid> = Parameters::read(&uri, &["before"])?.parsed("before")?;
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let action =
        store::notifications::actions::list(tenant, Some(number)).await?.pop().ok_or(Refusal::NotFound)?;
    let known = store::bootstrap::known_names(tenant).await?.environments;
    let deliveries = store::notifications::deliveries::list(tenant, number, before).await?;
    drop(transaction);
    let path = site.links.page(&[&organization, "actions", &number.to_string()]);
    let content = html! {
        h1 { (text(&action.name)) }
        p { (delivery_badge(action.is_failing)) }
        dl {
            dt { "Number" }
            dd { (action.number) }
            dt { "Environments" }
            dd { (environments(&site, &organization, &action, &known)) }
            dt { "Triggers" }
            dd {
                ul.plain {
                    @for trigger in &action.triggers { li { code { (trigger) } ": " (meaning(*trigger)) } }
                }
            }
            dt { "Created" }
            dd { (timestamp(action.created_at)) ", by " (text(&action.created_by)) }
            dt { "Last changed" }
            dd { (timestamp(action.last_modified_at)) }
        }
        section {
            h2 { "Targets" }
            div.roomy { (targets(&action.targets)) }
        }
        section {
            h2 { "Deliveries" }
            (crate::resources::actions::page::deliveries(&site, &organization, &deliveries))
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
    let path = ["actions", &organization, &number.to_string()];
    let alternate = Alternate::new(&site, &path, &[], &["get", "action", &number.to_string()]);
    let navigation = Navigation {
        alternate: Some(&alternate),
        parents: &[("Actions", site.links.page(&[&organization, "actions"]))],
        ..Navigation::default()
    };
    Ok(layout::page_with_navigation(&site, &action.name, Some(&user), navigation, &content))
}

/// The environments of an action; those that were declared or reported are links.
fn environments(site: &Site, organization: &str, action: &ListedAction, known: &BTreeSet<String>) -> Markup {
    html! {
        ul.plain {
            @for name in &action.environments {
                li {
                    @if name == ALL_ENVIRONMENTS { "all environments" }
                    @else if known.contains(name) { (EnvironmentLinks { site, organization, environment: name }.link()) }
                    @else { (text(name)) ", neither declared nor reported" }
                }
            }
        }
    }
}

/// The result of the last delivery, as a badge.
fn delivery_badge(is_failing: Option<bool>) -> Markup {
    let (class, word) = match is_failing {
        None => ("open", "no deliveries"),
        Some(false) => ("good", "working"),
        Some(true) => ("bad", "failing"),
    };
    badge(class, word)
}

fn last(time: Option<Timestamp>) -> Markup {
    html! { @if let Some(time) = time { (timestamp(time)) } @else { "never" } }
}

/// The event that fires a trigger.
fn meaning(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::StartedArtifact => "an artifact starts to run",
        Trigger::ExitedArtifact => "an artifact no longer runs",
        Trigger::ScaledArtifact => "the number of pods of an artifact changes",
        Trigger::AllowedArtifact => {
            "an artifact on the allow-list starts, or a running one is added to the list"
        }
        Trigger::NonCompliantEnvironment => "an environment becomes non-compliant, or was never compliant",
        Trigger::CompliantEnvironment => "an environment becomes compliant",
        Trigger::SilentEnvironment => "an environment becomes silent",
        Trigger::ReportingEnvironment => "a silent environment is reported again",
        Trigger::Checkpoint => "a checkpoint of the organization's log is written",
        Trigger::NonCompliantArtifact => {
            "an artifact starts that is not compliant, or a running one is no longer compliant"
        }
        Trigger::Test => "an administrator tests the action",
    }
}

fn targets(targets: &[ListedTarget]) -> Markup {
    let rows = html! {
        @for target in targets {
            tr {
                th scope="row" { (text(&target.name)) }
                td { (target.kind.as_str()) }
                td { (address(&target.address)) }
                td {
                    (delivery_badge(target.is_failing()))
                    @if let Some(problem) = &target.last_error { p { (text(problem)) } }
                }
                td { (last(target.last_success_at)) }
                td { (last(target.last_failure_at)) }
            }
        }
    };
    table("Targets", &["Name", "Type", "Address", "Deliveries", "Last success", "Last failure"], &rows)
}

/// The public part of the address of a target.
fn address(public: &PublicAddress) -> Markup {
    let Some(webhook) = &public.webhook else {
        return html! { ul.plain { @for recipient in &public.recipients { li { (text(recipient)) } } } };
    };
    let channel = public.channel.as_ref();
    let channel = channel.and_then(|it| it.channel_name.as_ref().or(it.channel_id.as_ref()));
    html! { (text(webhook)) @if let Some(channel) = channel { ", " (text(channel)) } }
}

fn deliveries(site: &Site, organization: &str, deliveries: &AtMost<Delivery>) -> Markup {
    let now = site.now();
    let rows = html! {
        @for delivery in &deliveries.listed {
            tr {
                td { (timestamp(delivery.content.occurred_at())) }
                td {
                    @if let EventContent::Environment(Content { environment, .. }) = &delivery.content {
                        (EnvironmentLinks { site, organization, environment }.link())
                    }
                }
                td { (event(site, organization, delivery)) }
                td { (text(&delivery.target)) @if delivery.is_closed { ", since removed" } }
                td { (delivery.attempts) }
                td { (result(delivery, now)) }
            }
        }
    };
    let columns = ["Time", "Environment", "Event", "Target", "Attempts", "Result"];
    html! {
        @if deliveries.listed.is_empty() { p { "No deliveries." } }
        @else { div.roomy.deliveries { (table("Deliveries", &columns, &rows)) } }
    }
}

/// The trigger, the affected artifacts and the number of merged events.
fn event(site: &Site, organization: &str, delivery: &Delivery) -> Markup {
    let (artifacts, total) = match &delivery.content {
        EventContent::Environment(event) => (event.artifacts.as_slice(), event.artifacts_total),
        EventContent::Checkpoint(_) | EventContent::Test(_) => (&[][..], 0),
    };
    let more = total.saturating_sub(artifacts.len().min(MAX_ARTIFACTS));
    html! {
        code { (delivery.content.trigger()) }
        @if total > 0 {
            ul.plain {
                @for artifact in artifacts.iter().take(MAX_ARTIFACTS) {
                    li {
                        a href=(urls::artifact(site, organization, &artifact.fingerprint)) {
                            (text(&artifact.name))
                        }
                    }
                }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
        @if delivery.merged_events > 0 { p { "and " (delivery.merged_events) " more of this kind" } }
    }
}

fn result(delivery: &Delivery, now: Timestamp) -> Markup {
    let Delivery { sent_at, dropped_at, due_at, last_error, .. } = delivery;
    html! {
        @if let Some(at) = sent_at {
            (badge("good", "sent")) " " (timestamp(*at))
            @if let Some(problem) = last_error { p { (text(problem)) } }
        } @else if let Some(at) = dropped_at {
            (badge("bad", "dropped")) " " (timestamp(*at))
            p { (text(last_error.as_deref().unwrap_or_default())) }
        } @else {
            (badge("open", "pending"))
            @if *due_at > now { " next attempt " (timestamp(*due_at)) } @else { " due now" }
            @if let Some(problem) = last_error { p { (text(problem)) } }
        }
    }
}
