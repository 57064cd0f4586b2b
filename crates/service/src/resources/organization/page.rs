//! The page of an organization: its environments as cards.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};

use crate::http::parameters::Parameters;
use crate::layout::parts::environment_status::CurrentStatus;
use crate::layout::parts::escape::text;
use crate::layout::parts::filter::Filter;
use crate::layout::parts::format::{count, elapsed, running_totals};
use crate::layout::parts::layout::{self, Alternate, HtmlPage, Navigation};
use crate::layout::parts::list::{MAX_LISTED, empty, first_note};
use crate::layout::parts::pagination::{self, Pagination};
use crate::layout::parts::refusal::Refusal;
use crate::layout::parts::urls::{self, EnvironmentLinks};
use crate::layout::session::OrganizationPage;
use crate::site::{PageSite, Site};
use model::Timestamp;
use model::image_id::short_name;
use model::reason::Reason;
use rules::compliance::Compliance;
use store::environments::failing::FailingArtifact;
use store::environments::{EnvironmentOverview, EnvironmentPlace, EventsPerHour, RunningTotals};
use store::notifications::actions::ListedAction;

/// Environments per page.
const CARDS_PER_PAGE: usize = 200;

/// Hours in a chart, including the current one.
const HOURS: i64 = 24;

/// In microseconds.
const HOUR: i64 = 3_600_000_000;

pub(crate) async fn page(
    State(PageSite(site)): State<PageSite>,
    OrganizationPage { organization, user, .. }: OrganizationPage,
    uri: Uri,
) -> Result<HtmlPage, Refusal> {
    let parameters = Parameters::read(&uri, &["page"])?;
    let requested = pagination::requested_page(&parameters)?;
    let now = site.now();
    let since = Timestamp::from_micros((now.micros() / HOUR - HOURS + 1) * HOUR);
    let mut transaction = site.store.read().await?;
    let tenant = &mut transaction.of(&organization);
    let mut all = store::environments::places(tenant).await?;
    // Sorted here: the database's order depends on its locale.
    all.sort_by_cached_key(|environment| order(environment, &site, now));
    let pagination = Pagination::new(all.len(), CARDS_PER_PAGE, requested);
    let on_page = all.chunks(CARDS_PER_PAGE).nth(pagination.page - 1).unwrap_or_default();
    let ids: Vec<_> = on_page.iter().map(|environment| environment.id).collect();
    let environments = store::environments::by_id(tenant, &ids).await?;
    let totals = store::environments::running_totals(tenant, ids.iter().copied()).await?;
    let failing = store::environments::failing::longest(tenant, ids.iter().copied()).await?;
    let hours = store::environments::events_per_hour(tenant, ids, since).await?;
    let actions = store::notifications::actions::list(tenant, None).await?;
    drop(transaction);
    let content = html! {
        h1 { (text(&organization)) }
        (attention(&site, &organization, &actions, &environments))
        @if environments.is_empty() {
            (empty("No environments yet.", "supercargo agent --once --create --environment NAME"))
        }
        ul.cards {
            @for environment in &environments {
                @let totals = totals.get(&environment.id).copied().unwrap_or_default();
                @let failing = failing.get(&environment.id);
                li { (card(&site, &organization, environment, totals, failing, &hours, now)) }
            }
        }
        (pagination.links(|page| format!("{}?page={page}", site.links.page(&[&organization]))))
    };
    let alternate = Alternate::new(&site, &["environments", &organization], &[], &["list", "environments"]);
    let navigation = Navigation {
        is_organization_page: true,
        alternate: Some(&alternate),
        is_live: true,
        ..Navigation::default()
    };
    Ok(layout::page_with_navigation(&site, &organization, Some(&user), navigation, &content))
}

/// Non-compliant environments first, then silent ones, each with those of the bootstrap file before others: a token cannot
/// hide them by reporting many new environments.
fn order(environment: &EnvironmentPlace, site: &Site, now: Timestamp) -> (u8, bool, String) {
    let is_silent = environment.validity(site.silent_after).is_silent(now);
    let place = match environment.compliance {
        Compliance::NonCompliant => 0,
        _ if is_silent && environment.is_declared => 1,
        _ => 2,
    };
    (place, !environment.is_declared, environment.name.clone())
}

/// A line for each kind of problem that is not one of an environment's artifacts.
fn attention(
    site: &Site,
    organization: &str,
    actions: &[ListedAction],
    environments: &[EnvironmentOverview],
) -> Markup {
    let failing: Vec<_> = actions.iter().filter(|action| action.is_failing == Some(true)).collect();
    let waiting = environments.iter().filter(|environment| environment.is_queued).count();
    html! {
        @for action in failing.iter().take(MAX_LISTED) {
            p.warning {
                "Notifications of "
                a href=(site.links.page(&[organization, "actions", &action.number.to_string()])) { (text(&action.name)) }
                " fail"
                @for (number, target) in action.targets.iter().filter(|target| target.is_failing() == Some(true)).take(MAX_LISTED).enumerate() {
                    @if number == 0 { ": " } @else { ", " }
                    (text(&target.name))
                }
            }
        }
        (first_note(failing.len(), "failing actions"))
        @if waiting > 0 { p.warning { (count(waiting, "environment waits", "environments wait")) " to be evaluated" } }
    }
}

fn card(
    site: &Site,
    organization: &str,
    environment: &EnvironmentOverview,
    totals: RunningTotals,
    failing: Option<&(FailingArtifact, i64)>,
    hours: &EventsPerHour,
    now: Timestamp,
) -> Markup {
    let status = CurrentStatus::from_environment(environment, site, now);
    let links = EnvironmentLinks { site, organization, environment: &environment.name };
    html! {
        article.silent[status.is_silent()] {
            h2 { (links.link()) }
            p { (status.environment_badge(environment)) }
            @if let Some((first, total)) = failing { (reason(links, first, *total, now)) }
            dl {
                dt { "Running" }
                dd { (running_totals(totals)) }
                dt { "Last report" }
                dd { (status.last_report()) }
            }
            (chart(environment, hours))
            p.links { a href=(links.timeline(1)) { "Timeline" } }
        }
    }
}

/// `fraud:1.8.1: unit-tests failed, 52 min`, with links.
fn reason(links: EnvironmentLinks<'_>, first: &FailingArtifact, total: i64, now: Timestamp) -> Markup {
    let FailingArtifact { artifact, reasons, since } = first;
    let name = if artifact.name.is_empty() { "an artifact" } else { short_name(&artifact.name) };
    let found = reasons.first().map(Reason::finding).unwrap_or_default();
    let non_compliant = Filter { compliance: Some(Compliance::NonCompliant), ..Filter::default() };
    html! {
        p.why {
            a href=(urls::artifact(links.site, links.organization, &artifact.fingerprint)) { (text(name)) }
            ": " (text(&found)) ", for " span.age { (elapsed(now, *since)) }
            @if total > 1 {
                " · " a href={ (links.page()) (non_compliant.query()) } { "and " (total - 1) " more" }
            }
        }
    }
}

/// The events of the last day, one bar per hour.
fn chart(environment: &EnvironmentOverview, hours: &EventsPerHour) -> Markup {
    let counts: Vec<i64> =
        (0..HOURS).map(|hour| hours.get(&(environment.id, hour)).copied().unwrap_or_default()).collect();
    let total: i64 = counts.iter().sum();
    let max = counts.iter().copied().max().unwrap_or_default().max(1);
    let label = format!("{} in the last day", count(total, "event", "events"));
    html! {
        figure {
            svg viewBox={ "0 0 " (HOURS * 4) " 24" } preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (hour, number) in counts.iter().enumerate().filter(|(_, number)| **number > 0) {
                    // At least 2 of 24 units, so that one event is visible beside a thousand.
                    @let height = (number * 24 / max).max(2);
                    rect x=(hour * 4) y=(24 - height) width="3" height=(height) {}
                }
            }
            figcaption { (label) }
        }
    }
}
