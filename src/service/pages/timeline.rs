//! An environment's snapshots, the newest first: what started, exited and was scaled, and the silences between.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use maud::{Markup, html};
use sqlx::types::Uuid;

use super::compare::chooser;
use super::parts::environment_status::Present;
use super::parts::escape::text;
use super::parts::format::{badge, badge_of, count, span, stamp};
use super::parts::layout::{self, Way};
use super::parts::pagination::{asked, snapshots};
use super::parts::refusal::Refusal;
use super::parts::urls::Place;
use super::pure::changes::{Changed, LISTED, Listed, Read, SCALINGS, Scaled, changes};
use super::pure::intervals::{Held, SILENCES, Silent, looked_at};
use super::search::artifact;
use super::session::Visitor;
use crate::domain::model::Timestamp;
use crate::service::app::App;
use crate::service::http::parameters::Parameters;
use crate::service::http::segments::Segments;
use crate::store;
use crate::store::Transaction;
use crate::store::search::Artifact;
use crate::store::timeline::{Kept, Snapshot};

/// A page of snapshots.
pub(super) async fn page(
    State(app): State<App>,
    Segments((organization, name)): Segments<(String, String)>,
    visitor: Visitor,
    uri: Uri,
) -> Result<Html<String>, Refusal> {
    visitor.of(&organization)?;
    let asked = asked(&Parameters::read(&uri, &["page"])?)?;
    let mut transaction = app.store.read().await?;
    let environment = transaction.one_of_overview(&organization, &name).await?.ok_or(Refusal::NotFound)?;
    let kept = transaction.kept_snapshots(environment.id).await?;
    let last = environment.snapshot;
    let (paged, numbers) = snapshots(kept.first.unwrap_or(last), last, asked);
    let read = read(&mut transaction, environment.id, numbers).await?;
    drop(transaction);
    let present = Present::of(&environment, &app, app.now());
    let told = List {
        place: Place { app: &app, organization: &organization, environment: &name },
        kept,
        last,
        present,
    };
    let changes = changes(read, &kept);
    let content = html! {
        h1 { (text(&name)) ": timeline" }
        @if let Some(first) = kept.first {
            (chooser(told.place, (first, last), ((last - 1).max(first), last)))
            p {
                (count(last - first + 1, "snapshot", "snapshots"))
                (paged.said())
            }
            ol.timeline {
                @if let Some(since) = environment.last_report_at.filter(|_| paged.page == 1 && present.is_silent()) {
                    li.gap {
                        p.late {
                            "Silent since " (stamp(since)) ", for longer than " (span(present.validity.silent_after))
                            ": nobody knows what has run since."
                        }
                    }
                }
                @for changed in &changes {
                    @if let Some((from, to)) = changed.silent.at_its_end { li.gap { (gap(from, to)) } }
                    li { (told.changed(changed)) }
                }
            }
            @if paged.page == paged.pages { (told.end(changes.last())) }
            (paged.links(|page| told.place.timeline(page)))
        } @else {
            p { "This environment was never reported: there is no snapshot yet." }
        }
    };
    let way = Way { above: &[(&name, told.place.now())], ..Way::default() };
    Ok(layout::placed(&app, "Timeline", Some(&visitor), way, &content))
}

async fn read(
    transaction: &mut Transaction,
    environment: Uuid,
    numbers: (i64, i64),
) -> Result<Read, store::Error> {
    let snapshots = transaction.snapshots(environment, numbers).await?;
    let received = |snapshot: Option<&Snapshot>| snapshot.map(|snapshot| snapshot.received_at);
    let changes = match received(snapshots.last()).zip(received(snapshots.first())) {
        Some(times) => transaction.changes(environment, numbers, times, LISTED).await?,
        None => Vec::new(),
    };
    let scalings = transaction.scalings(environment, numbers, SCALINGS).await?;
    let silences = transaction.silences(environment, numbers, SILENCES).await?;
    Ok(Read { snapshots, changes, scalings, silences })
}

/// What the whole list is about.
#[derive(Clone, Copy)]
struct List<'a> {
    place: Place<'a>,
    kept: Kept,
    last: i64,
    present: Present,
}

impl List<'_> {
    fn changed(&self, changed: &Changed) -> Markup {
        let Changed { snapshot, started, exited, scaled, latest, silent } = changed;
        let number = snapshot.number;
        let before = Some(number - 1).filter(|before| self.kept.first.is_some_and(|first| first <= *before));
        let at = self.place.at(looked_at(snapshot, &self.kept));
        // Where the rest of a long list stands.
        let rest = before.map_or(at.clone(), |before| self.place.compared(before, number));
        html! {
            article.snapshot id={ "snapshot-" (number) } aria-labelledby={ "number-" (number) } {
                h2 { span id={ "number-" (number) } { "Snapshot " (number) } " " (stood(snapshot)) }
                (facts(snapshot, silent, self.present))
                div.changes {
                    (self.listed("Started", Some(started), &rest))
                    @if number > 1 { (self.listed("Exited", exited.as_ref(), &rest)) }
                    (self.scaled(scaled, *latest, &at))
                }
                (within(silent))
                p.ways {
                    a href=(at) { "What ran then" }
                    @if let Some(before) = before {
                        " " a href=(self.place.compared(before, number)) { "Compared with " (before) }
                    }
                    @if number < self.last {
                        " " a href=(self.place.compared(number, self.last)) { "Compared with " (self.last) ", the last" }
                    }
                }
            }
        }
    }

    /// Some of the artifacts that did something, and how many more did; `None`: that was removed.
    fn listed(&self, what: &str, listed: Option<&Listed>, rest: &str) -> Markup {
        let place = self.place;
        html! {
            @match listed {
                Some(Listed { total: 0, .. }) => {}
                Some(Listed { artifacts, total }) => div {
                    h3 { (what) " " (total) }
                    ul.plain {
                        @for listed in artifacts { li { (artifact(place.app, place.organization, listed)) } }
                        (more(*total, artifacts.len(), rest))
                    }
                }
                None => div { h3 { (what) } p { "No longer known: it is past the retention." } }
            }
        }
    }

    fn scaled(&self, scaled: &[Scaled], latest: Option<i64>, rest: &str) -> Markup {
        let total = i64::try_from(scaled.len()).unwrap_or(i64::MAX);
        let listed = usize::try_from(LISTED).unwrap_or_default();
        html! {
            @if total > 0 {
                div {
                    h3 { "Scaled " (total) }
                    ul.plain {
                        @for Scaled { artifact: fingerprint, name, before, after, times } in scaled.iter().take(listed) {
                            li {
                                (artifact(self.place.app, self.place.organization,
                                    &Artifact { fingerprint: *fingerprint, name: name.clone() }))
                                ": "
                                @if before == after { (count(*after, "pod", "pods")) ", as before, after " (times) " steps" }
                                @else {
                                    (before) " → " (count(*after, "pod", "pods"))
                                    @if *times > 1 { ", in " (times) " steps" }
                                }
                            }
                        }
                        (more(total, total.min(LISTED).try_into().unwrap_or_default(), rest))
                    }
                    @if let Some(times) = latest {
                        p.why { "There was more before: this is what the latest " (count(times, "time", "times")) " changed." }
                    }
                }
            }
        }
    }

    /// Why the list ends.
    fn end(&self, first: Option<&Changed>) -> Markup {
        let kept = self.kept.horizon_at.filter(|_| self.kept.first.is_some_and(|first| first > 1));
        html! {
            p.late role="note" {
                @match (kept, first) {
                    (Some(horizon), _) => {
                        "The list ends here: what ended before " (stamp(horizon))
                        " is past the retention and was removed, with all snapshots before."
                    }
                    (None, Some(first)) => {
                        "The first report came at " (stamp(first.snapshot.received_at)) ": nobody knows what ran before."
                        @if let Some(horizon) = self.kept.horizon_at.filter(|at| *at > first.snapshot.received_at) {
                            " Silences before " (stamp(horizon)) " are past the retention."
                        }
                    }
                    (None, None) => {}
                }
            }
        }
    }
}

/// How the environment stood once the snapshot was there; that may have changed since.
pub(super) fn stood(snapshot: &Snapshot) -> Markup {
    html! {
        @match snapshot.compliance {
            Some(compliance) => { (badge(compliance)) span.when { " when it was received" } },
            None => (badge_of("open", "not judged")),
        }
    }
}

/// When a snapshot was there, and who reported it.
pub(super) fn facts(snapshot: &Snapshot, silent: &Silent, present: Present) -> Markup {
    let held = Held::of(snapshot, silent, present);
    let confirmed = snapshot
        .confirmed_at
        .or(present.validity.last_report_at.filter(|_| snapshot.superseded_at.is_none()));
    html! {
        dl.facts {
            div { dt { "Received" } dd { (stamp(snapshot.received_at)) ", by " (text(&snapshot.reported_by)) } }
            div {
                dt { "Confirmed until" }
                dd { @if let Some(confirmed) = confirmed { (stamp(confirmed)) } @else { "not recorded" } }
            }
            div {
                dt { "Superseded" }
                dd { @if let Some(superseded) = snapshot.superseded_at { (stamp(superseded)) } @else { "not yet" } }
            }
            div {
                dt { "Held" }
                dd {
                    (span(held.span)) @if held.goes_on { " so far" }
                    @if silent.total > 0 {
                        ", with " (count(silent.total, "silence", "silences")) " of " (span(silent.sum))
                        @if silent.total > 1 { " together" }
                    }
                }
            }
        }
    }
}

/// A silence between two snapshots, in words.
fn gap(from: Timestamp, to: Timestamp) -> Markup {
    html! {
        p.late {
            "Nobody reported the environment from " (stamp(from)) " to " (stamp(to)) ", " (span(to.distance(from)))
            ": nobody knows what ran."
        }
    }
}

/// The silences after which the same was reported.
fn within(silent: &Silent) -> Markup {
    html! {
        @if !silent.within.is_empty() {
            ul.plain.late {
                @for &(from, to) in &silent.within {
                    li {
                        "Silent from " (stamp(from)) " to " (stamp(to)) ", " (span(to.distance(from)))
                        ": the same artifacts were reported before and after."
                    }
                }
                @let rest = silent.total - i64::try_from(silent.within.len()).unwrap_or_default();
                @if rest > 0 { li { "and " (count(rest, "silence", "silences")) " before" } }
            }
        }
    }
}

/// How many more there are than are listed, and where.
fn more(total: i64, listed: usize, rest: &str) -> Markup {
    let more = total - i64::try_from(listed).unwrap_or(i64::MAX);
    html! { @if more > 0 { li { a href=(rest) { "and " (more) " more" } } } }
}
