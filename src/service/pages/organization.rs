//! An organization: its environments as cards, some on a page.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};

use super::parts::environment_status::Present;
use super::parts::escape::text;
use super::parts::format::{badge, count};
use super::parts::layout::{self, Way};
use super::parts::pagination::{self, Paged};
use super::parts::refusal::Refusal;
use super::parts::urls::Place;
use super::session::Visitor;
use crate::domain::model::Timestamp;
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::segments::Segments;
use crate::store::overview::{Environment, Hours};

/// How many environments a page has.
const CARDS: usize = 200;

/// How many hours a chart shows, the current one included.
const HOURS: i64 = 24;

const HOUR: i64 = 3_600_000_000;

/// A page of the environments, each as a card.
pub(super) async fn page(
    State(app): State<App>,
    Segments(organization): Segments<String>,
    visitor: Visitor,
    uri: Uri,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let parameters = Parameters::read(&uri, &["page"])?;
    let asked = pagination::asked(&parameters)?;
    let now = app.now();
    let since = Timestamp::from_micros((now.micros() / HOUR - HOURS + 1) * HOUR);
    let mut transaction = app.store.read().await?;
    let all = transaction.environments_by_name(&organization).await?;
    let paged = Paged::of(all.len(), CARDS, asked);
    let environments = transaction.overview(all.into_iter().skip(paged.passed).take(CARDS)).await?;
    let hours = transaction.hours(&environments, since).await?;
    drop(transaction);
    let content = html! {
        h1 { (text(&organization)) }
        @if environments.is_empty() {
            p { "No environment was reported or declared yet." }
        }
        ul.cards {
            @for environment in &environments { li { (card(&app, &organization, environment, &hours, now)) } }
        }
        (paged.links(|page| format!("{}?page={page}", app.links.page(&[&organization]))))
    };
    let way = Way { is_top: true, ..Way::default() };
    Ok(layout::placed(&app, &organization, Some(&visitor), way, &content))
}

fn card(app: &App, organization: &str, environment: &Environment, hours: &Hours, now: Timestamp) -> Markup {
    let present = Present::of(environment, app, now);
    let place = Place { app, organization, environment: &environment.name };
    html! {
        article.silent[present.is_silent()] {
            h2 { (place.link()) }
            p { (badge(present.compliance())) }
            dl {
                dt { "Runs" }
                dd { (count(environment.artifacts, "artifact", "artifacts")) " in " (count(environment.pods, "pod", "pods")) }
                dt { "Last report" }
                dd { (present.heard()) }
            }
            (chart(environment, hours))
            p.ways { a href=(place.timeline(1)) { "Timeline" } }
        }
    }
}

/// What happened in the last day: a bar an hour.
fn chart(environment: &Environment, hours: &Hours) -> Markup {
    let counts: Vec<i64> =
        (0..HOURS).map(|hour| hours.get(&(environment.id, hour)).copied().unwrap_or_default()).collect();
    let total: i64 = counts.iter().sum();
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    let said = format!("{} in the last day", count(total, "event", "events"));
    html! {
        figure {
            svg viewBox={ "0 0 " (HOURS * 4) " 24" } preserveAspectRatio="none" role="img" aria-label=(said) {
                @for (hour, number) in counts.iter().enumerate().filter(|(_, number)| **number > 0) {
                    // At least a tenth of the height, so that one event shows beside a thousand.
                    @let height = (number * 24 / most).max(2);
                    rect x=(hour * 4) y=(24 - height) width="3" height=(height) {}
                }
            }
            figcaption { (said) }
        }
    }
}
